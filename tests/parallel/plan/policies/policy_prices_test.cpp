// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/policies/policy_prices.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "tests/parallel/plan/planner/planner_case.h"
#include "tests/parallel/plan/policies/policy_case.h"

namespace llmtrain::test {
namespace {

PolicyTable table_of(const Recipe& recipe, double limit) {
  return price_policies(recipe, profile_of(recipe), 1, limit);
}

const PolicyPrice& own(const PolicyTable& table) { return table.prices.back(); }

}  // namespace

TEST_CASE("with room for everything the recipe's own order takes as long as its plan, and needs as much") {
  for (const char* zero : {"0", "1"})
    for (const char* layout : {"pipeline.loops=6", "parallel.pipeline=2"}) {
      INFO(zero << " " << layout);
      const std::vector<Override> overrides = {"cluster.devices_per_node=4", "batch.global=32",
                                               std::string("parallel.zero_stage=") + zero, layout};
      const Plan plan = plan_of(six_layers(overrides));
      const PolicyChoice choice{plan.layout->recipe().pipeline.schedule, plan.layout->recipe().pipeline.loops, {}, {}};
      double least = 0;
      const auto price = price_choice(plan, choice, 1e15, 1e10, {}, least);
      REQUIRE(price);
      CHECK(price->fetched_bytes + price->written_bytes == 0);
      CHECK(price->step_seconds == Approx(plan.simulation.step_seconds).epsilon(1e-9));
      const double peak = fullest_rank(plan.report).peak_bytes;
      // Messages of pipeline ranks are counted as if all were there at once.
      CHECK(price->peak_bytes >= peak * 0.999);
      CHECK(price->peak_bytes <= peak * 1.05);
      CHECK(least < price->peak_bytes);
    }
}

TEST_CASE("every policy stays within the limit, one byte below what it needs is refused, and less room is no faster") {
  const Recipe recipe = six_layers();
  const PolicyTable room = table_of(recipe, 1e15);
  for (const PolicyPrice& price : room.prices) REQUIRE(price.choice);
  CHECK(own(room).step_seconds <= room.unlimited_seconds * (1 + 1e-9));
  const PolicyTable none = table_of(recipe, 1);
  const double least = own(none).least_bytes;
  CHECK(!own(none).choice);
  CHECK(least > 0);
  CHECK(!own(table_of(recipe, least - 1)).choice);
  CHECK(own(table_of(recipe, least)).choice);
  double seconds = 0;
  for (int i = 10; i >= 0; --i) {
    const double limit = std::floor(least + (room.unlimited_bytes - least) * i / 10);
    const PolicyTable table = table_of(recipe, limit);
    for (const PolicyPrice& price : table.prices) {
      if (!price.choice) continue;
      CHECK(price.peak_bytes <= limit);
      // Compute cannot be shorter, and neither direction moves faster than the way to the host.
      CHECK(price.step_seconds >=
            0.9 * room.unlimited_seconds * (price.choice->update.place == TaskPlace::device ? 1 : 0));
      const double bandwidth = profile_of(recipe).device.pcie_bandwidth;
      CHECK(price.step_seconds >= std::max(price.fetched_bytes, price.written_bytes) / bandwidth);
      CHECK(own(table).step_seconds <= price.step_seconds);
    }
    REQUIRE(own(table).choice);
    CHECK(own(table).step_seconds >= seconds * 0.98);
    seconds = own(table).step_seconds;
  }
}

TEST_CASE("the planner's own is never slower than a named policy: models, batches, links and limits at random",
          "[exhaustive]") {
  std::mt19937 random(3);
  const auto of = [&](std::initializer_list<const char*> values) {
    return std::string(values.begin()[random() % values.size()]);
  };
  int cases = 0, faster = 0;
  for (int round = 0; round < 125; ++round) {
    const Recipe recipe =
        six_layers({"model.layers=" + of({"2", "3", "4"}), "model.hidden_size=" + of({"128", "512", "2048"}),
                    "model.vocab_size=" + of({"512", "8192"}), "batch.global=" + of({"1", "2", "6"}),
                    "training.clip_norm=" + of({"0", "1"}), "model.tie_embeddings=" + of({"true", "false"}),
                    "memory.recompute=" + of({"\"none\"", "\"full\""})});
    ClusterProfile cluster = profile_of(recipe);
    cluster.device.pcie_bandwidth = std::pow(10.0, 9.0 + 0.01 * static_cast<double>(random() % 300));
    const PolicyTable room = price_policies(recipe, cluster, 1, 1e15);
    const double least = own(price_policies(recipe, cluster, 1, 1)).least_bytes;
    for (int i = 0; i < 8; ++i) {
      const double share = static_cast<double>(random() % 100) / 100;
      const PolicyTable table =
          price_policies(recipe, cluster, 1, std::ceil(least + (room.unlimited_bytes - least) * share));
      REQUIRE(own(table).choice);
      double best = own(table).step_seconds * 2;
      for (const PolicyPrice& price : table.prices) {
        if (!price.choice || price.policy == MemoryPolicy::own) continue;
        ++cases;
        REQUIRE(own(table).step_seconds <= price.step_seconds);
        best = std::min(best, price.step_seconds);
      }
      if (own(table).step_seconds < best) ++faster;
    }
  }
  CAPTURE(cases, faster);
  CHECK(cases >= 3000);
  CHECK(faster > 0);
}

// What memory.offload.optimizer does, which run executes: the same bytes, of which here the way of the gradients is
// hidden behind backwards, and a stage's way there and back is one after the other, where run moves smaller pieces.
TEST_CASE("ZeRO-Offload takes what the plan of the optimizer on the host does, and moves two bytes each way") {
  for (const char* micros : {"1", "4", "16"}) {
    const std::string batch = std::string("batch.global=") + micros;
    const PolicyTable table = table_of(six_layers({batch}), 1e15);
    const auto offload = std::ranges::find(table.prices, MemoryPolicy::zero_offload, &PolicyPrice::policy);
    REQUIRE(offload->choice);
    const Plan there = plan_of(six_layers({batch, "memory.offload.optimizer=true"}));
    const auto parameters = static_cast<double>(there.report.total_parameters);
    CHECK(offload->fetched_bytes == Approx(2 * parameters).epsilon(1e-4));
    CHECK(offload->written_bytes == Approx(2 * parameters).epsilon(1e-4));
    INFO(micros << ": " << offload->step_seconds << " " << there.report.step.seconds);
    const double largest =
        plan_of(six_layers({batch, "pipeline.loops=6"})).memory.stages[0].resident[MemoryCategory::weights];
    const double there_and_back = 2 * largest / profile_of(six_layers()).device.pcie_bandwidth;
    CHECK(offload->step_seconds <= there.report.step.seconds + there_and_back);
    CHECK(offload->step_seconds >= there.report.step.seconds - there.report.step.optimizer_seconds);
    // What a run under that name moves.
    const Plan run = plan_of(six_layers({batch, "memory.policy=\"zero_offload\""}));
    CHECK(run.report.ranks.front().evicted_bytes == Approx(offload->written_bytes).epsilon(1e-4));
    const double way = run.report.ranks.front().evicted_bytes / profile_of(six_layers()).device.pcie_bandwidth;
    CHECK(run.report.step.seconds <= there.report.step.seconds + way);
    CHECK(run.report.step.seconds >= there.report.step.seconds - way);
  }
}

TEST_CASE("what policies are not planned for is refused by its key") {
  using Catch::Matchers::StartsWith;
  const auto message = [](const std::vector<Override>& overrides) -> std::string {
    try {
      table_of(six_layers(overrides), 1e12);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  CHECK_THAT(message({"cluster.profile=cpu", "cluster.device=cpu"}), StartsWith("/cluster/profile: "));
  CHECK_THAT(message({"kernels.cuda_graphs=true"}), StartsWith("/kernels/cuda_graphs: "));
  // What the recipe itself leaves to the host is left out.
  CHECK(message({"memory.policy=\"zero_offload\""}).empty());
  CHECK_THAT(message({"training.update_in_backward=true", "training.clip_norm=0"}),
             StartsWith("/training/update_in_backward: "));
  CHECK(message({"memory.limit=1e9"}).empty());
}

}  // namespace llmtrain::test
