// SPDX-License-Identifier: Apache-2.0
// Steps within memory.limit, as LibTorch's allocator counts their tensors.
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "parallel/plan/planner/memory_limit.h"
#include "tests/parallel/engine/planned/planned_run.h"
#include "tests/support/source_folder.h"

namespace llmtrain::test {
namespace {

ClusterProfile cpu() { return load_profile("cpu", source_folder() / "recipes/clusters"); }

// Bytes of single numbers, such as losses, which plans leave out.
constexpr double uncounted = 256;

// What is no tensor.
double other_bytes(const Plan& plan, const PlannedRank& rank) {
  return rank.bytes[MemoryCategory::framework] + plan.memory.rank[MemoryCategory::communication];
}

// From the least that can be reached to what a step without a limit takes.
void check_limits(const RankCase& layout, int limits) {
  const TrainingSetting setting;
  Recipe recipe = recipe_of(setting, layout);
  const std::vector<LimitPoint> curve = limit_curve(recipe, cpu(), devices_per_node(recipe, cpu()));
  const double least = curve.front().peak_bytes, most = curve.back().peak_bytes;
  REQUIRE(least < most);
  for (int i = 0; i < limits; ++i) {
    // They share the processor.
    recipe.memory.limit = static_cast<double>(layout.ranks) * std::ceil(least + (most - least) * i / (limits - 1));
    INFO(in_words(layout.ranks, layout.overrides) << " within " << *recipe.memory.limit);
    const Plan plan = plan_of(recipe);
    for (const RankRun& run : run_ranks(plan)) {
      check_memory(plan, run);
      const PlannedRank& planned = plan.report.ranks[static_cast<std::size_t>(run.pipeline_rank)];
      CHECK(static_cast<double>(run.peak) + other_bytes(plan, planned) <=
            *recipe.memory.limit / static_cast<double>(layout.ranks) + uncounted);
    }
  }
}

// Between pipeline ranks messages may come late, which takes memory that no plan has.
TEST_CASE("steps need no more memory than their limit") {
  check_limits({1, {"batch.micro=8", "batch.global=16"}}, 10);
  check_limits({1, {"precision.compute=\"bf16\"", "precision.fp8_level=\"O2\"", "batch.micro=8"}}, 4);
  check_limits({2, {"parallel.zero_stage=3", "pipeline.loops=4", "batch.micro=8", "batch.global=16"}}, 4);
}

}  // namespace
}  // namespace llmtrain::test
