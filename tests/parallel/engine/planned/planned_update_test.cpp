// SPDX-License-Identifier: Apache-2.0
// Steps that update one stage after another (training.update_in_backward) do what their plan predicts.
#include <catch2/catch.hpp>
#include <vector>

#include "tests/parallel/engine/planned/planned_run.h"

namespace llmtrain::test {
namespace {

const std::vector<RankCase> layouts{
    {1, {"batch.global=1"}},
    {1, {"batch.micro=2", "pipeline.schedule=\"breadth_first\"", "precision.compute=\"bf16\""}},
    {1, {"pipeline.loops=2", "model.tie_embeddings=true"}},
    {2, {"pipeline.loops=4", "batch.global=2"}},
    {2, {"parallel.zero_stage=1", "pipeline.loops=4", "parallel.overlap=false"}},
    {2, {"parallel.zero_stage=2", "batch.global=2"}},
    {4, {"parallel.zero_stage=3", "batch.global=8"}},
    {2, {"parallel.tensor=2", "batch.global=1"}},
    {4, {"parallel.pipeline=2", "pipeline.loops=2", "model.tie_embeddings=true", "parallel.zero_stage=2"}},
};

Recipe updated(const TrainingSetting& setting, RankCase layout) {
  layout.overrides = layout.overrides + Overrides{"training.update_in_backward=true", "training.clip_norm=0"};
  return recipe_of(setting, layout);
}

TEST_CASE("steps that update stages in the backward do as planned") {
  const TrainingSetting setting;
  for (const RankCase& layout : layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    check_plan(plan_of(updated(setting, layout)));
  }
}

TEST_CASE("of all gradients those of a stage are there at once") {
  const TrainingSetting setting;
  const RankCase one{1, {"pipeline.loops=4", "batch.global=1"}};
  const Plan stages = plan_of(updated(setting, one)), whole = plan_of(recipe_of(setting, one));
  const auto most = [](const Plan& plan) { return plan.report.ranks.front().bytes[MemoryCategory::gradients]; };
  // Each has a layer, the first and the last also embedding and head, which are as large as half of one.
  CHECK(most(stages) < 0.4 * most(whole));
  // Nothing else is saved, time included.
  CHECK(stages.report.step.optimizer_seconds == Approx(whole.report.step.optimizer_seconds));
  CHECK(stages.report.step.seconds == Approx(whole.report.step.seconds));
}

}  // namespace
}  // namespace llmtrain::test
