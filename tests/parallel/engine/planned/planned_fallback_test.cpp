// SPDX-License-Identifier: Apache-2.0
// A plan bounds the memory of a run whose layers leave FP8, however many of them do.
#include <catch2/catch.hpp>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "core/model/layers/fp8_history.h"
#include "kernels/onednn/matmul.h"
#include "tests/parallel/engine/planned/planned_run.h"

namespace llmtrain::test {
namespace {

const Overrides may_fall_back{"precision.fp8_scaling.method=\"delayed\"", "precision.high_precision.fallback_steps=8"};

const std::vector<RankCase> falling_layouts{
    {2,
     {"precision.fp8_level=\"O0\"", "parallel.pipeline=2", "pipeline.schedule=\"gpipe\"", "batch.micro=2",
      "batch.global=32"}},
    {2, {"precision.fp8_level=\"O0\"", "precision.compute=\"bf16\"", "parallel.tensor=2", "memory.recompute=\"full\""}},
    {4,
     {"precision.fp8_level=\"O0\"", "precision.compute=\"bf16\"", "parallel.tensor=2", "parallel.context=2",
      "memory.recompute=\"computation\"", "batch.micro=4"}},
    {2, {"precision.fp8_level=\"O1\"", "pipeline.loops=2", "batch.micro=2"}},
    {2, {"precision.fp8_level=\"O1\"", "parallel.zero_stage=2", "pipeline.loops=4", "pipeline.schedule=\"1f1b\""}},
    {2, {"precision.fp8_level=\"O1\"", "precision.gradients=\"bf16\"", "parallel.zero_stage=3", "pipeline.loops=4"}},
    {2, {"precision.fp8_level=\"O2\"", "parallel.zero_stage=1", "precision.high_precision.first_layers=2"}},
    {4,
     {"precision.fp8_level=\"O3\"", "parallel.tensor=2", "parallel.zero_stage=3", "pipeline.loops=4",
      "pipeline.schedule=\"breadth_first\""}},
    {2, {"precision.fp8_level=\"O3\"", "precision.compute=\"bf16\"", "parallel.pipeline=2", "pipeline.loops=2"}},
    {2,
     {"precision.fp8_level=\"O2\"", "precision.fp8_scaling.method=\"current\"", "parallel.zero_stage=3",
      "pipeline.loops=4"}},
};

// Lets one of so many products leave FP8, or of so many matrices' gradients, before the first step.
std::function<void(Trainer&)> leaving(std::size_t stride) {
  return [stride](Trainer& trainer) {
    if (Fp8History* history = trainer.model().fp8_history()) {
      for (std::size_t i = 0; i < history->products().size(); i += stride) history->set_state(i, {{1, 1, 1}, {8, 1}});
    } else if (GradientFallback* gradients = trainer.model().gradient_fallback()) {
      for (std::size_t i = 0; i < gradients->matrices().size(); i += stride) gradients->set_state(i, {8, 1});
    }
  };
}

}  // namespace

TEST_CASE("a plan says how much memory a run needs at most once layers have left FP8") {
  const TrainingSetting setting;
  for (const RankCase& layout : falling_layouts) {
    const Plan plan = plan_of(recipe_of(setting, {layout.ranks, may_fall_back + layout.overrides}));
    for (const std::size_t stride : {1, 2}) {
      INFO(in_words(layout.ranks, layout.overrides) << ", one of " << stride << " products");
      for (const RankRun& run : run_ranks(plan, leaving(stride))) {
        const PlannedRank& planned = plan.report.ranks[static_cast<std::size_t>(run.pipeline_rank)];
        REQUIRE(planned.fallback_peak_bytes);
        const double most = *planned.fallback_peak_bytes - planned.bytes[MemoryCategory::framework];
        // As exact as plans of memory are.
        if (kernels::has_onednn()) CHECK(static_cast<double>(run.peak) <= 1.05 * most);
        if (stride == 1) CHECK(static_cast<double>(run.peak) >= 0.85 * most);
      }
    }
  }
}

}  // namespace llmtrain::test
