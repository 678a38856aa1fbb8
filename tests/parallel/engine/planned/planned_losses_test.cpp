// SPDX-License-Identifier: Apache-2.0
// Steps of a model with two losses send the scalars that are planned.
#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/layout/declared_scalars.h"
#include "tests/parallel/engine/planned/planned_run.h"
#include "tests/parallel/engine/two_headed_layout.h"

namespace llmtrain::test {

TEST_CASE("a step of a model with two losses does what is planned") {
  const TrainingSetting setting;
  const std::vector<RankCase> layouts{
      {2, {}},
      {2, {"parallel.tensor=2"}},
      {4, {"parallel.pipeline=2", "parallel.zero_stage=3", "pipeline.loops=2"}},
      {2, {"parallel.pipeline=2"}},
  };
  for (const RankCase& layout : layouts)
    // The second head reads what the first one reads, or what an early layer makes.
    for (const std::optional<std::int64_t> read : {std::optional<std::int64_t>(), std::optional<std::int64_t>(0)}) {
      INFO(in_words(layout.ranks, layout.overrides) << (read ? ", an early layer" : ""));
      const Recipe recipe = recipe_of(setting, layout);
      const auto two = two_headed_layout(recipe, layout.ranks, read), one = layout_of(recipe, layout.ranks);
      CHECK(declared_scalars(two->partition()).numbers() == declared_scalars(one->partition()).numbers() + 1);
      check_plan(plan_of(two));
    }
}

}  // namespace llmtrain::test
