// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "all_layouts.h"
#include "core/base/error.h"
#include "parallel/plan/planner/offload_choices.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/search/search.h"
#include "planner_case.h"

namespace llmtrain::test {
namespace {

// Eight ranks with four micro-batches each.
Plan plan_with(const std::vector<Override>& more, double pcie_bandwidth) {
  std::vector<Override> overrides = {"cluster.profile=h100-sxm-80gb", "precision.compute=bf16", "batch.global=64",
                                     "batch.micro=2", "memory.offload.activations=true"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  const Recipe recipe = small_gpt(overrides);
  ClusterProfile cluster = profile_of(recipe);
  cluster.device.pcie_bandwidth = pcie_bandwidth;
  return make_plan(recipe, cluster);
}

double moved_activations(const StageMemory& stage) {
  return stage.held(MemoryEvent::forward_starts, MemoryEvent::backward_ends, MemoryPlace::host);
}

// What leaves or arrives while a block computes is another's.
TEST_CASE("over a slow link passes take as long as all that is kept for their backward") {
  constexpr double slow = 1e8;
  for (const char* recompute : {"none", "full"}) {
    for (const char* pipeline : {"1", "2"}) {
      std::vector<Override> overrides{std::string("memory.recompute=") + recompute,
                                      std::string("parallel.pipeline=") + pipeline, "pipeline.loops=2"};
      const Plan plan = plan_with(overrides, slow);
      overrides.emplace_back("memory.offload.activations=false");
      const Plan without = plan_with(overrides, slow);
      for (std::size_t stage = 0; stage < plan.memory.stages.size(); ++stage) {
        INFO(recompute << " " << pipeline << " stage " << stage);
        const double moved = moved_activations(plan.memory.stages[stage]);
        REQUIRE(moved > 0);
        const StageCost &cost = plan.costs.stages[stage], &computed = without.costs.stages[stage];
        // With a layer on each stage nothing runs while it leaves, but on the last one, which has the head behind it.
        const double alone = plan.memory.stages.size() == 4 && stage < 3 ? 1 : 0;
        CHECK(cost.forward.seconds == Approx(moved / slow + alone * computed.forward.seconds));
        CHECK(cost.backward.seconds == Approx(moved / slow + alone * computed.backward.seconds));
      }
    }
  }
}

TEST_CASE("a step with offloaded activations grows with the bytes over PCIe once these take longer than its passes") {
  const std::vector<Override> keeps = {"memory.offload.activations=false"};
  const double without = plan_with(keeps, 1e8).report.step.seconds;
  // A link that fast hides everything.
  CHECK(plan_with({}, 1e15).report.step.seconds == Approx(without));
  const double slow = plan_with({}, 2e8).report.step.seconds, slower = plan_with({}, 1e8).report.step.seconds;
  CHECK(slow > 2 * without);
  CHECK(slower > 1.8 * slow);
  CHECK(plan_with({"memory.recompute=full"}, 1e8).report.step.seconds < slower / 2);
}

// A stage of a layer each: fetched for the forwards of all micro-batches, and again for their backwards.
TEST_CASE("weights come before each gather, and share the way to the device with activations in the backward alone") {
  constexpr double slow = 1e7;
  const std::vector<Override> sharded = {"parallel.zero_stage=3", "memory.offload.optimizer=true", "pipeline.loops=2",
                                         "pipeline.schedule=breadth_first"};
  const auto plan = [&](const std::vector<Override>& more, double bandwidth) {
    std::vector<Override> overrides = sharded;
    overrides.insert(overrides.end(), more.begin(), more.end());
    return plan_with(overrides, bandwidth);
  };
  const Override weights = "memory.offload.weights=true", keeps = "memory.offload.activations=false";
  const Plan here = plan({keeps}, slow), there = plan({weights, keeps}, slow);
  for (std::size_t stage = 0; stage < there.costs.stages.size(); ++stage) {
    const StageCost &cost = there.costs.stages[stage], &before = here.costs.stages[stage];
    double bytes = 0;
    for (const StateGroup& group : there.layout->partition().groups[stage])
      bytes += 2 * static_cast<double>(group.shard());
    CHECK(cost.gather_seconds - before.gather_seconds == Approx(bytes / slow));
    CHECK(cost.forward.seconds == before.forward.seconds);
    CHECK(cost.backward.seconds == before.backward.seconds);
    // Four micro-batches share a gather.
    const StageCost both = plan({weights}, slow).costs.stages[stage], activations = plan({}, slow).costs.stages[stage];
    CHECK(both.forward.seconds == activations.forward.seconds);
    CHECK(both.backward.seconds - activations.backward.seconds == Approx(bytes / slow / 4));
  }
  const auto passes = [](const Plan& of) { return of.report.step.seconds - of.costs.optimizer_seconds.front(); };
  // A link that fast hides everything.
  CHECK(passes(plan({weights, keeps}, 1e15)) == Approx(passes(plan({keeps}, 1e15))));
  CHECK(passes(plan({weights, keeps}, slow / 2)) > 1.8 * passes(there));
}

// Gradients of four bytes an element leave for the host's update while weights of two arrive.
TEST_CASE("weights that come beside the update of the stage before leave the way to activations") {
  constexpr double slow = 1e7;
  const std::vector<Override> updated = {
      "parallel.zero_stage=3",           "memory.offload.optimizer=true",    "pipeline.loops=2",
      "pipeline.schedule=breadth_first", "training.update_in_backward=true", "training.clip_norm=0"};
  std::vector<Override> with_weights = updated;
  with_weights.emplace_back("memory.offload.weights=true");
  const Plan here = plan_with(updated, slow), there = plan_with(with_weights, slow);
  REQUIRE(there.costs.stages.size() == 2);
  CHECK(there.costs.stages[1].update_seconds > 0);
  CHECK(there.costs.stages[0].backward.seconds == here.costs.stages[0].backward.seconds);
  // The first backward follows another pass.
  double bytes = 0;
  for (const StateGroup& group : there.layout->partition().groups[1]) bytes += 2 * static_cast<double>(group.shard());
  CHECK(there.costs.stages[1].backward.seconds - here.costs.stages[1].backward.seconds == Approx(bytes / slow / 4));
}

TEST_CASE("host memory holds the activations of micro-batches that wait for their backward, not of all") {
  const auto host_bytes = [](const char* schedule) {
    const Plan plan = plan_with({std::string("pipeline.schedule=") + schedule}, 5e10);
    return plan.report.ranks.front().host_bytes / moved_activations(plan.memory.stages.front());
  };
  CHECK(host_bytes("1f1b") == Approx(1));
  CHECK(host_bytes("gpipe") == Approx(4));
}

// Per weight the host's memory moves 12 bytes of states there and back, and fp32 gradients and bf16 weights in and out;
// 8 ranks share it. Over PCIe the gradients take longest.
TEST_CASE("the host's update takes as long as the slowest of what it moves, beside two passes of the device") {
  const auto seconds = [](double of_host, double pcie, const std::vector<Override>& more = {}) {
    std::vector<Override> overrides = {"cluster.profile=h100-sxm-80gb", "precision.compute=bf16",
                                       "memory.offload.optimizer=true"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    const Recipe recipe = small_gpt(overrides);
    ClusterProfile cluster = profile_of(recipe);
    cluster.host.memory_bandwidth = of_host;
    cluster.device.pcie_bandwidth = pcie;
    return make_plan(recipe, cluster).costs.optimizer_seconds.front();
  };
  const double weights = static_cast<double>(plan_with({}, 1e9).layout->graph().parameter_count());
  const double device = seconds(0, 1e18);
  CHECK(device > 0);
  CHECK(seconds(0, 1e9) - device == Approx(weights * 4 / 1e9));
  CHECK(seconds(1e9, 1e18) - device == Approx(weights * (24 + 12) * 8 / 1e9));
  CHECK(seconds(9 * 8e9, 1e9) - device == Approx(weights * 4 / 1e9));
  // Weights that are their own master have one on the host, and leave as they are.
  CHECK(seconds(1e9, 1e18, {"precision.compute=fp32"}) - device == Approx(weights * (24 + 16) * 8 / 1e9));
  // Those that stay on the host are only written there.
  const std::vector<Override> stay = {"parallel.zero_stage=3", "memory.offload.weights=true"};
  CHECK(seconds(1e9, 1e18, stay) - seconds(0, 1e18, stay) == Approx(weights * (24 + 8 + 2) / 1e9).epsilon(1e-3));
}

// A model whose states fit on no layout's devices beside its activations, but, with the rest on the host, in part: of
// what all of them take, `share`.
struct RoomForSome {
  RoomForSome(int devices, double share, const std::string& optimizer = "adamw")
      : recipe(small_gpt({"cluster.profile=h100-sxm-80gb", "cluster.devices_per_node=" + std::to_string(devices),
                          "precision.compute=bf16", "model.layers=8", "model.hidden_size=4096", "model.heads=32",
                          "kernels.attention=flash", "batch.global=8", "training.optimizer.name=" + optimizer,
                          "memory.offload.optimizer=true"})),
        cluster(profile_of(recipe)) {
    cluster.accuracy.memory.reset();
    const double there = least_of(recipe);
    Recipe here = recipe;
    here.memory.offload = {};
    cluster.device.memory_bytes = std::ceil(there + share * (least_of(here) - there));
  }

  double least_of(const Recipe& of) const {
    ClusterProfile roomy = cluster;
    roomy.device.memory_bytes *= 1000;
    double least = std::numeric_limits<double>::infinity();
    for (const SearchCandidate& one : simulate_all(of, roomy).fitting) least = std::min(least, one.peak_bytes);
    return least;
  }

  PlanReport with(Recipe other, std::int64_t stay) const {
    other.memory.offload.resident_stages = stay;
    return make_plan(other, cluster).report;
  }

  Recipe recipe;
  ClusterProfile cluster;
};

// The fastest step of all layouts, as they are and with a layer in each stage, with every number of stages that stay.
double fastest_of_all(const RoomForSome& room, bool takes_tight) {
  double fastest = std::numeric_limits<double>::infinity();
  const auto visit = [&](const Recipe& layout) {
    for (std::int64_t stay = 0; stay < layout.pipeline.loops; ++stay) {
      try {
        const PlanReport report = room.with(layout, stay);
        const bool has_room = report.fits && (takes_tight || verdict_of(report) == MemoryVerdict::fits);
        if (has_room) fastest = std::min(fastest, report.step.seconds);
      } catch (const Error&) {
        // Not every enumerated layout is legal.
        return;
      }
    }
  };
  const Mesh mesh = mesh_of(room.recipe);
  for_each_layout(room.recipe, mesh, [&](const Recipe& layout) {
    visit(layout);
    const Recipe staged = layout.parallel.pipeline == 1 ? in_stages(layout, mesh_of(layout)) : layout;
    if (staged != layout) visit(staged);
  });
  return fastest;
}

// A step is shorter with more of them, so that the most that have room stay.
void check_kept(const RoomForSome& room, const Recipe& found, double seconds, bool takes_tight) {
  const std::int64_t stay = found.memory.offload.resident_stages, loops = found.pipeline.loops;
  INFO(stay << " of " << loops << " stages stay");
  CHECK(stay > 0);
  const Recipe written = parse_recipe(to_json(found).dump(), "found", "/");
  const PlanReport report = make_plan(written, room.cluster).report;
  CHECK(report.fits);
  CHECK(report.step.seconds == seconds);
  CHECK(seconds < room.with(found, 0).step.seconds);
  CHECK(seconds < room.with(found, stay - 1).step.seconds);
  if (stay + 1 == loops) return;
  const PlanReport more = room.with(found, stay + 1);
  CHECK((!more.fits || (!takes_tight && verdict_of(more) == MemoryVerdict::tight)));
}

TEST_CASE("a search keeps the states of as many stages on the device as have room", "[limit][exhaustive]") {
  const auto [devices, share, optimizer] = GENERATE(std::tuple(1, 0.3, "adamw"), std::tuple(1, 0.75, "adamw"),
                                                    std::tuple(2, 0.4, "adamw"), std::tuple(2, 0.9, "muon"));
  const RoomForSome room(devices, share, optimizer);
  const SearchResult result = search_layouts(room.recipe, room.cluster);
  REQUIRE_FALSE(result.front.empty());
  const SearchCandidate& fastest = result.front.front();
  // With several ranks one may be the slowest whatever stays with it: then layouts take as long that differ in that.
  if (devices == 1) check_kept(room, fastest.recipe, fastest.step_seconds, true);
  CHECK(fastest.step_seconds <= fastest_of_all(room, true) * (1 + 1e-9));
}

TEST_CASE("a search recommends no stages that stay within the error of plans", "[limit][exhaustive]") {
  RoomForSome room(1, GENERATE(0.7, 0.8, 0.9));
  room.cluster.accuracy.memory = PlanError{.error = 0.2, .rows = 15, .program = "llmtrain", .devices = 2};
  room.cluster.accuracy.step = PlanError{.error = 0.5, .rows = 15, .program = "llmtrain", .devices = 2};
  const SearchResult result = search_layouts(room.recipe, room.cluster);
  REQUIRE(result.best);
  CHECK(result.front.front().is_tight);
  const SearchCandidate& best = result.front[*result.best];
  CHECK_FALSE(best.is_tight);
  check_kept(room, best.recipe, best.step_seconds, false);
  CHECK(best.step_seconds <= fastest_of_all(room, false) * (1 + 1e-9));
}

TEST_CASE("a search keeps stages where nothing but the host has room for the recipe's states", "[limit]") {
  RoomForSome room(1, 0.6);
  room.recipe.memory.offload = {};
  const SearchResult result = search_layouts(room.recipe, room.cluster);
  REQUIRE_FALSE(result.front.empty());
  const SearchCandidate& fastest = result.front.front();
  check_kept(room, fastest.recipe, fastest.step_seconds, true);
}

}  // namespace
}  // namespace llmtrain::test
