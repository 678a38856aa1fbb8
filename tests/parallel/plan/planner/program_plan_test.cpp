// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "parallel/plan/planner/planner.h"
#include "planner_case.h"

namespace llmtrain::test {
namespace {

PlanReport report_at(const char* level, const Fp8Facts& facts, const std::vector<Override>& more = {}) {
  std::vector<Override> overrides = {
      "cluster.profile=h100-sxm-80gb", "model.hidden_size=4096", "model.heads=32",
      "precision.compute=bf16",        "parallel.zero_stage=1",  std::string("precision.fp8_level=") + level};
  overrides.insert(overrides.end(), more.begin(), more.end());
  const Recipe recipe = small_gpt(overrides);
  ClusterProfile cluster = profile_of(recipe);
  cluster.program.fp8 = facts;
  return make_plan(recipe, cluster).report;
}

TEST_CASE("FP8 in matrix products alone leaves gradients and states as they are without FP8") {
  const PlanReport without = report_at("off", {}), products = report_at("O1", {.states = false});
  const PlanReport all = report_at("O1", {});
  for (const MemoryCategory category :
       {MemoryCategory::weights, MemoryCategory::gradients, MemoryCategory::master_weights, MemoryCategory::optimizer})
    CHECK(products.ranks.front().bytes[category] == without.ranks.front().bytes[category]);
  CHECK(all.ranks.front().bytes[MemoryCategory::gradients] < products.ranks.front().bytes[MemoryCategory::gradients]);
  CHECK(products.step.compute_seconds < without.step.compute_seconds);
  CHECK(products.step.optimizer_seconds == without.step.optimizer_seconds);
  const auto traffic = [](const PlanReport& report) {
    double bytes = 0;
    for (const CommunicationEntry& entry : report.communication)
      if (entry.purpose == Purpose::data_parallel) bytes += entry.bytes_per_rank_per_step;
    return bytes;
  };
  CHECK(traffic(products) == traffic(without));
  CHECK(traffic(all) < traffic(products));
}

TEST_CASE("weights that are cast once per step or as shards cost less than in every pass") {
  const std::vector<Override> zero3 = {"parallel.zero_stage=3"};
  const auto seconds = [&](WeightCasts casts, const std::vector<Override>& more) {
    return report_at("O1", {.states = false, .weight_casts = casts}, more).step.compute_seconds;
  };
  CHECK(seconds(WeightCasts::step, {}) < seconds(WeightCasts::micro_batch, {}));
  // Only ZeRO-3 gathers what was cast.
  CHECK(seconds(WeightCasts::shard, {}) == seconds(WeightCasts::micro_batch, {}));
  CHECK(seconds(WeightCasts::shard, zero3) < seconds(WeightCasts::micro_batch, zero3));
}

}  // namespace
}  // namespace llmtrain::test
