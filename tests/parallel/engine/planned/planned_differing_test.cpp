// SPDX-License-Identifier: Apache-2.0
// Layers that differ are priced one by one.
#include <catch2/catch.hpp>
#include <vector>

#include "tests/parallel/engine/differing_layout.h"
#include "tests/parallel/engine/planned/planned_run.h"

namespace llmtrain::test {
namespace {

const std::vector<RankCase> differing_layouts{
    {1, {}},
    {2, {"parallel.tensor=2"}},
    {4, {"parallel.tensor=4", "precision.compute=\"bf16\""}},
    {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\"", "memory.recompute=\"selective\""}},
    {2, {zero(3), "pipeline.loops=4"}},
    {4, {zero(3), "parallel.tensor=2", "pipeline.loops=4", "memory.recompute=\"full\""}},
};

}  // namespace

TEST_CASE("a step of layers that differ does what is planned") {
  const TrainingSetting setting;
  for (const RankCase& layout : differing_layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    check_plan(plan_of(differing_layout(recipe_of(setting, layout), layout.ranks)));
  }
}

}  // namespace llmtrain::test
