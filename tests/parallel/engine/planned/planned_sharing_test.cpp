// SPDX-License-Identifier: Apache-2.0
// What several stages read of one block: copies on several ranks, weights that one stage lends to others of its rank.
#include <catch2/catch.hpp>
#include <vector>

#include "tests/parallel/engine/planned/planned_run.h"
#include "tests/parallel/engine/sharing_layout.h"

namespace llmtrain::test {
namespace {

const std::vector<RankCase> sharing_layouts{
    {1, {"pipeline.loops=3"}},
    {2, {"pipeline.loops=3", "parallel.zero_stage=2"}},
    {2, {"pipeline.loops=3", "parallel.zero_stage=3", "model.tie_embeddings=true"}},
    {3, {"parallel.pipeline=3", "pipeline.schedule=\"1f1b\""}},
    {6, {"parallel.pipeline=3", "parallel.tensor=2", "model.tie_embeddings=true"}},
    {4, {"parallel.pipeline=2", "pipeline.loops=3", "parallel.zero_stage=3", "model.tie_embeddings=true"}},
};

}  // namespace

TEST_CASE("a step of stages that share parameters does what is planned") {
  const TrainingSetting setting;
  for (const RankCase& layout : sharing_layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    const RankCase deeper{layout.ranks, Overrides{"model.layers=6"} + layout.overrides};
    check_plan(plan_of(sharing_layout(recipe_of(setting, deeper), layout.ranks)));
  }
}

}  // namespace llmtrain::test
