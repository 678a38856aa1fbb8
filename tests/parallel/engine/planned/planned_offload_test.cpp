// SPDX-License-Identifier: Apache-2.0
// Steps on GPUs, emulated here, whose gradients leave for the host, or whose stages the host updates one by one,
// execute the planned instructions, need the planned memory and move the planned bytes.
#include <catch2/catch.hpp>
#include <vector>

#include "tests/parallel/engine/planned/planned_run.h"

namespace llmtrain::test {
namespace {

const Overrides gpu{"cluster.device=\"cuda\""};
constexpr const char* bf16 = "precision.compute=\"bf16\"";
constexpr const char* fp8_moments = "precision.fp8_level=\"O2\"";
constexpr const char* fp8_weights = "precision.fp8_level=\"O3\"";

Overrides with_gradients_on_host(Overrides more) {
  for (const char* key : {"memory.offload.optimizer=true", "memory.offload.gradients=true"}) more.emplace_back(key);
  return more;
}

}  // namespace

TEST_CASE("of all gradients those of two stages are on the device at once where they leave for the host") {
  const TrainingSetting setting;
  const Overrides keys = gpu + Overrides{"pipeline.loops=4", "batch.global=1", "memory.offload.optimizer=true"};
  const auto run = [&](const Overrides& more) { return plan_of(recipe_of(setting, {1, keys + more})); };
  const Plan stay = run({}), leave = run({"memory.offload.gradients=true"});
  const auto gradients = [](const Plan& plan) { return plan.report.ranks.front().bytes[MemoryCategory::gradients]; };
  // Each stage has a layer, the first and the last also embedding and head, which are as large as half of one.
  CHECK(gradients(leave) < 0.6 * gradients(stay));
  CHECK(leave.report.ranks.front().evicted_bytes == gradients(stay));
  const auto peak = [](const Plan& plan) { return run_ranks(plan).front().peak; };
  CHECK(static_cast<double>(peak(leave)) < static_cast<double>(peak(stay)) - 0.3 * gradients(stay));
}

TEST_CASE("a GPU whose gradients or updates are the host's needs the planned memory and moves the planned bytes") {
  const TrainingSetting setting;
  for (const Overrides& recipe : std::vector<Overrides>{
           with_gradients_on_host({bf16, "pipeline.loops=4", "batch.global=4", "batch.micro=2",
                                   "pipeline.schedule=\"breadth_first\"", "model.tie_embeddings=true"}),
           {"memory.policy=\"zero_infinity\"", bf16, "precision.gradients=\"bf16\"", "batch.micro=8",
            "training.freeze=[\"layers.1.*\"]"},
           {"training.update_in_backward=true", "training.clip_norm=0", "memory.offload.optimizer=true",
            "batch.global=1"},
           {"memory.policy=\"zero_infinity\"", bf16, fp8_weights, "batch.global=1"},
           {"memory.policy=\"harmony\"", bf16, fp8_moments, "batch.global=2"},
           {"memory.policy=\"harmony\"", bf16, "training.clip_norm=0", "batch.global=4", "batch.micro=2"}})
    check_layout(setting, {1, gpu + recipe});
}

TEST_CASE("ranks with GPUs move the planned bytes of their gradients to the host, and need the planned memory") {
  const TrainingSetting setting;
  for (const RankCase& layout : std::vector<RankCase>{
           {2, {"pipeline.loops=4", "batch.global=2"}},
           {2, {bf16, zero(1), "pipeline.loops=4", "batch.global=4"}},
           {2, {zero(2), "pipeline.loops=4", "parallel.overlap=false", "batch.global=4"}},
           {4, {bf16, zero(3), "pipeline.loops=2", "parallel.pipeline=2", "model.tie_embeddings=true"}},
           {2, {"parallel.tensor=2", "pipeline.loops=2", "batch.global=1"}}})
    check_layout(setting, {layout.ranks, gpu + with_gradients_on_host(layout.overrides)});
}

// Their gradients are sums of what ranks send each other, which a plan counts as reductions.
TEST_CASE("ranks with GPUs whose FP8 gradients leave for the host need the planned memory") {
  const TrainingSetting setting;
  for (const RankCase& layout :
       std::vector<RankCase>{{2, {bf16, fp8_moments, "pipeline.loops=4", "batch.global=2"}},
                             {2, {bf16, fp8_weights, zero(2), "pipeline.loops=4", "batch.global=4"}}}) {
    INFO(in_words(layout.ranks, layout.overrides));
    const Plan plan = plan_of(recipe_of(setting, {layout.ranks, gpu + with_gradients_on_host(layout.overrides)}));
    for (const RankRun& run : run_ranks(plan)) check_memory(plan, run);
  }
}
}  // namespace llmtrain::test
