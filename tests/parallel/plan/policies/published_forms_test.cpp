// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "core/residency/residency_check.h"
#include "core/residency/residency_policy.h"
#include "parallel/plan/policies/rank_tasks.h"
#include "tests/parallel/plan/policies/policy_case.h"

namespace llmtrain::test {
namespace {

struct Bytes {
  double weights = 1, gradients = 0, states = 0;
};

struct Setup {
  std::int64_t layers = 8, micro_batches = 4, pipeline = 1;
  const char* schedule = "interleaved";
  std::int64_t data = 1;
};

// The schedule of the recipe, with a stage for each layer, all of the same size, and nothing else in memory: as closed
// forms count.
Plan equal_stages(const Setup& setup, const Bytes& bytes) {
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  Plan plan = plan_of(six_layers(
      {"model.layers=" + number(setup.layers), "model.tie_embeddings=false",
       "batch.global=" + number(setup.micro_batches * setup.data), "parallel.pipeline=" + number(setup.pipeline),
       "pipeline.loops=" + number(setup.layers / setup.pipeline), std::string("pipeline.schedule=") + setup.schedule,
       "cluster.devices_per_node=" + number(setup.pipeline * setup.data), "parallel.zero_stage=0"}));
  for (StageMemory& stage : plan.memory.stages) {
    stage = {};
    stage.resident[MemoryCategory::weights] = bytes.weights;
    stage.resident[MemoryCategory::gradients] = bytes.gradients;
    stage.resident[MemoryCategory::optimizer] = bytes.states;
  }
  plan.memory.head_adds_to.reset();
  return plan;
}

// What all pipeline ranks move in a step from empty devices until the host has everything.
Traffic cold_traffic(const Plan& plan, std::int64_t room, const ResidencyPolicy& policy, const UpdateRule& update) {
  Traffic sum;
  const Schedule schedule = with_stage_updates(plan.layout->schedule(), update);
  for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
    const RankTasks tasks = rank_tasks(plan, schedule, rank, update);
    ResidencyPlan moves = plan_residency(tasks.sequence, room, policy);
    flush(moves);
    const Traffic traffic = check_residency(tasks.sequence, moves, room).traffic;
    sum.fetched += traffic.fetched;
    sum.written_back += traffic.written_back;
  }
  return sum;
}

constexpr ResidencyPolicy naive{Eviction::least_recently_used, true, false};
constexpr ResidencyPolicy nearest_stays{Eviction::furthest_next_use, false, false};
constexpr UpdateRule early{TaskPlace::device, true};

}  // namespace

// Harmony (arXiv 2202.01306) counts (4m+2)·N·|W| for virtual memory under data parallelism, 3·N·|W| for its own and
// 3·|W| over a pipeline, of layers that never fit; what stays at turns is exact here, from empty devices.
TEST_CASE("the traffic of weights is Harmony's closed forms with room for some layers") {
  struct Case {
    std::int64_t layers, room, micro_batches;
  };
  for (const auto& [layers, room, micros] : std::vector<Case>{{8, 1, 4}, {8, 3, 4}, {8, 4, 1}, {12, 5, 7}, {6, 6, 2}}) {
    INFO(layers << " layers, room for " << room << ", " << micros << " micro-batches");
    const Traffic swapped = cold_traffic(equal_stages({layers, micros}, {}), room, naive, {});
    const std::int64_t loads = (2 * micros + 1) * (layers - room) + room;
    CHECK(swapped.fetched == loads);
    CHECK(swapped.bytes() == 2 * loads);
    CHECK(swapped.bytes() <= (4 * micros + 2) * layers);
    // A record of writes spares the copies of what the passes only read.
    const Traffic recorded =
        cold_traffic(equal_stages({layers, micros}, {}), room, {Eviction::least_recently_used, false, false}, {});
    CHECK(recorded.bytes() == loads + layers);

    const Traffic packs =
        cold_traffic(equal_stages({layers, micros, 1, "breadth_first"}, {}), room, nearest_stays, early);
    CHECK(packs.fetched == 2 * layers - room);
    CHECK(packs.bytes() == 3 * layers - room);
  }
}

TEST_CASE("data ranks move as much each, and pipeline ranks one copy of the weights together") {
  const std::int64_t layers = 8, micros = 4, room = 1;
  for (const std::int64_t ranks : {2, 4}) {
    // Every data rank has the same tasks.
    CHECK(cold_traffic(equal_stages({layers, micros, 1, "breadth_first", ranks}, {}), room, nearest_stays, early)
              .bytes() == 3 * layers - room);
    CHECK(cold_traffic(equal_stages({layers, micros, 1, "interleaved", ranks}, {}), room, naive, {}).bytes() ==
          2 * ((2 * micros + 1) * (layers - room) + room));
    const Plan pipeline = equal_stages({layers, micros, ranks, "breadth_first"}, {});
    CHECK(cold_traffic(pipeline, room, nearest_stays, early).bytes() == 3 * layers - ranks * room);
    // Passes micro-batch by micro-batch stay below the bound in a pipeline as well.
    const Traffic swapped = cold_traffic(equal_stages({layers, micros, ranks, "interleaved"}, {}), room, naive, {});
    CHECK(swapped.bytes() <= (4 * micros + 2) * layers);
    CHECK(swapped.bytes() > 3 * layers);
  }
}

// "Up to 100 times less": of weights with four devices and 18 micro-batches each it is the closed forms' ratio.
TEST_CASE("Harmony's pipeline moves a hundredth of what swapping under data parallelism does") {
  const std::int64_t layers = 24, micros = 18, ranks = 4;
  const std::int64_t swapped = ranks * cold_traffic(equal_stages({layers, micros}, {}), 1, naive, {}).bytes();
  const std::int64_t packs =
      cold_traffic(equal_stages({layers, micros, ranks, "breadth_first"}, {}), 1, nearest_stays, early).bytes();
  const double ratio = static_cast<double>(swapped) / static_cast<double>(packs);
  CHECK(ratio == Approx((4.0 * 18 + 2) * 4 / 3).epsilon(0.03));
  CHECK(ratio > 95);
}

// With updates on the host gradients leave instead of weights: one copy as well.
TEST_CASE("updates on the host move weights down twice and gradients up once") {
  const Plan plan = equal_stages({8, 4, 1, "breadth_first"}, {.weights = 2, .gradients = 2, .states = 12});
  for (const bool is_early : {true, false}) {
    // Nothing stays but what the next pass needs: the weights at the turn.
    const Traffic traffic = cold_traffic(plan, 4, {Eviction::after_use, false, false}, {TaskPlace::host, is_early});
    CHECK(traffic.fetched == 2 * (2 * 8 - 1));
    CHECK(traffic.written_back == 2 * 8);
  }
}

// ZeRO-Offload (arXiv 2101.06840): per update the gradients' bytes up and the new weights' down, whatever the number of
// micro-batches, with weights and gradients on the device.
TEST_CASE("with room for weights and gradients an update on the host moves each once") {
  for (const char* schedule : {"interleaved", "breadth_first"}) {
    const Plan plan = equal_stages({8, 4, 1, schedule}, {.weights = 2, .gradients = 2, .states = 12});
    const UpdateRule rule{TaskPlace::host, true};
    const RankTasks tasks = rank_tasks(plan, with_stage_updates(plan.layout->schedule(), rule), 0, rule);
    const ResidencyPlan moves = steady_residency(tasks.sequence, 32, nearest_stays);
    const Traffic traffic = check_residency(tasks.sequence, moves, 32).traffic;
    CHECK(traffic.fetched == 2 * 8);
    CHECK(traffic.written_back == 2 * 8);
  }
}

}  // namespace llmtrain::test
