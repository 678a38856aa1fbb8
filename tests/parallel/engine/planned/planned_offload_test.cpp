// SPDX-License-Identifier: Apache-2.0
// Steps on GPUs, emulated here, whose gradients leave for the host, or whose stages the host updates one by one,
// execute the planned instructions, need the planned memory and move the planned bytes.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "parallel/plan/planner/memory_limit.h"
#include "tests/parallel/engine/planned/planned_run.h"
#include "tests/support/source_folder.h"

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

TEST_CASE("ranks some of whose stages stay on the device move the planned bytes, and need the planned memory") {
  const TrainingSetting setting;
  const auto stay = [](int stages) { return "memory.offload.resident_stages=" + std::to_string(stages); };
  for (const RankCase& layout : std::vector<RankCase>{
           {1, {"memory.policy=\"patrickstar\"", bf16, "batch.global=1", stay(1)}},
           {1, {"memory.policy=\"patrickstar\"", bf16, fp8_weights, "batch.global=1", stay(3)}},
           {1,
            {"memory.policy=\"zero_infinity\"", bf16, "training.freeze=[\"layers.3.*\"]", "batch.global=1", stay(2)}},
           {1, {"memory.policy=\"harmony\"", bf16, "training.clip_norm=0", "batch.global=2", stay(2)}},
           {1, {"memory.policy=\"naive_swapping\"", "batch.global=2"}},
           {2, {"memory.policy=\"naive_swapping\"", bf16, "batch.global=2", stay(2)}},
           {2, {bf16, zero(3), "memory.policy=\"patrickstar\"", "batch.global=2", stay(2)}},
           {2, {zero(2), "memory.policy=\"zero_offload\"", "batch.global=2", stay(1)}},
           {2,
            {bf16, "memory.policy=\"zero_offload\"", "memory.offload.optimizer=\"disk\"", "batch.global=2", stay(1)}},
           {4,
            {bf16, "memory.policy=\"patrickstar\"", "pipeline.loops=2", "parallel.pipeline=2",
             "model.tie_embeddings=true", stay(1)}}})
    check_layout(setting, {layout.ranks, gpu + layout.overrides});
}

TEST_CASE("GPUs that keep the stages that have room need no more memory than the limit") {
  const TrainingSetting setting;
  const ClusterProfile cluster = load_profile("h100-sxm-80gb", source_folder() / "recipes/clusters");
  for (const Overrides& policy :
       std::vector<Overrides>{{"memory.policy=\"patrickstar\""}, {"memory.policy=\"naive_swapping\""}, {}}) {
    Recipe recipe = recipe_of(setting, {1, gpu + Overrides{bf16, "batch.global=1"} + policy});
    INFO(in_words(1, policy));
    const std::vector<LimitPoint> curve = limit_curve(recipe, cluster, 1);
    const double least = curve.front().peak_bytes, most = curve.back().peak_bytes;
    REQUIRE(least < most);
    for (const double share : {0.0, 0.8}) {
      recipe.memory.limit = std::ceil(least + share * (most - least));
      INFO("within " << *recipe.memory.limit);
      const Plan plan = plan_of(recipe);
      const RankRun run = run_ranks(plan).front();
      check_memory(plan, run);
      const double context = plan.report.ranks.front().bytes[MemoryCategory::framework];
      CHECK(static_cast<double>(run.peak) + context <= *recipe.memory.limit);
      // Something stays, and something leaves.
      const std::int64_t stay = plan.layout->recipe().memory.offload.resident_stages;
      if (!policy.empty()) CHECK((stay > 0) == (share > 0));
    }
  }
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

// Matrices are a good part of all that the GPU has; of those on a disk some end within a piece.
TEST_CASE("GPUs to which Muon's matrices come need the planned memory, and move the planned bytes") {
  const TrainingSetting setting;
  const Overrides muon{"training.optimizer.name=\"muon\"", "training.optimizer.muon.steps=1", "model.layers=2",
                       "model.ffn_hidden_size=512", "batch.global=2"};
  const Overrides on_host{"memory.offload.optimizer=true"};
  const Overrides on_disk{"memory.offload.optimizer=\"disk\"",
                          "memory.offload.folder=\"" + setting.directory().path().string() + "\""};
  for (const RankCase& layout : std::vector<RankCase>{
           {1, on_host},
           {1, on_disk + Overrides{bf16, "model.layers=1", "model.hidden_size=256", "model.ffn_hidden_size=1536"}},
           {1, {"memory.policy=\"zero_infinity\"", bf16}},
           {1, {"memory.policy=\"naive_swapping\"", bf16}},
           {2, {"memory.policy=\"patrickstar\"", bf16, zero(3), "memory.offload.resident_stages=1"}},
           {2, on_disk + Overrides{zero(1)}},
           {2, on_host + Overrides{bf16, "parallel.tensor=2"}}})
    check_layout(setting, {layout.ranks, gpu + muon + layout.overrides});
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
