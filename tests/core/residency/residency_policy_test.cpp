// SPDX-License-Identifier: Apache-2.0
#include "core/residency/residency_policy.h"

#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "core/base/error.h"
#include "core/residency/residency_check.h"
#include "tests/core/residency/random_sequence.h"

namespace llmtrain::test {
namespace {

Traffic cold_traffic(const AccessSequence& sequence, std::int64_t budget, const ResidencyPolicy& policy) {
  ResidencyPlan plan = plan_residency(sequence, budget, policy);
  flush(plan);
  return check_residency(sequence, plan, budget).traffic;
}

// The order in which a step of so many layers and micro-batches uses their weights, forwards and backwards and then an
// update that changes them.
AccessSequence layer_weights(std::size_t layers, const std::vector<std::size_t>& passes) {
  AccessSequence sequence = unit_reads(layers, passes);
  for (std::size_t layer = 0; layer < layers; ++layer)
    sequence.tasks.push_back({{{layer, Access::change, false}}, 0, TaskPlace::device});
  return sequence;
}

std::vector<std::size_t> zig_zag(std::size_t layers, int micro_batches) {
  std::vector<std::size_t> passes;
  for (int micro = 0; micro < micro_batches; ++micro) {
    for (std::size_t layer = 0; layer < layers; ++layer) passes.push_back(layer);
    for (std::size_t layer = layers; layer-- > 0;) passes.push_back(layer);
  }
  return passes;
}

}  // namespace

TEST_CASE("a cyclic order misses every time with the least recently used, and one in three with the next use") {
  std::vector<std::size_t> order;
  for (int turn = 0; turn < 6; ++turn)
    for (std::size_t tensor = 0; tensor < 4; ++tensor) order.push_back(tensor);
  const AccessSequence sequence = unit_reads(4, order);
  CHECK(cold_traffic(sequence, 3, {.eviction = Eviction::least_recently_used}).fetches == 24);
  // With room for three of four each miss evicts what was read last, so that two hits follow.
  CHECK(cold_traffic(sequence, 3, {.eviction = Eviction::furthest_next_use}).fetches == 3 + 21 / 3);
}

// Loads (2m+1)(R−C)+C, of which R are changed: the zig-zag of passes, on which both orders agree.
TEST_CASE("passes micro-batch by micro-batch load what does not fit at every turn") {
  struct Case {
    std::size_t layers;
    std::int64_t room;
    int micro_batches;
  };
  for (const auto& [layers, room, micros] :
       std::vector<Case>{{8, 1, 4}, {8, 3, 4}, {8, 4, 1}, {5, 2, 3}, {24, 6, 16}}) {
    const AccessSequence sequence = layer_weights(layers, zig_zag(layers, micros));
    const auto count = static_cast<std::int64_t>(layers);
    const std::int64_t loads = (2 * micros + 1) * (count - room) + room;
    for (const Eviction eviction : {Eviction::least_recently_used, Eviction::furthest_next_use}) {
      const Traffic clean = cold_traffic(sequence, room, {.eviction = eviction});
      CHECK(clean.fetches == loads);
      CHECK(clean.write_backs == count);
    }
    // Without a record of writes all that leaves is copied: all but what is left at the end, which has been changed.
    const Traffic copied = cold_traffic(sequence, room, {.copies_clean = true});
    CHECK(copied.fetches == loads);
    CHECK(copied.write_backs == loads);
  }
}

TEST_CASE("a device with room for everything moves nothing once it has it") {
  const AccessSequence sequence = layer_weights(6, zig_zag(6, 2));
  for (const Eviction eviction :
       {Eviction::least_recently_used, Eviction::furthest_next_use, Eviction::most_idle_bytes}) {
    const ResidencyPlan plan = steady_residency(sequence, 6, {.eviction = eviction});
    CHECK(plan.start == plan.end);
    CHECK(check_residency(sequence, plan, 6).traffic.bytes() == 0);
  }
}

TEST_CASE("prefetching moves no fetch beside a task that has no room for it") {
  // Two of three bytes are in use, one is free: the next weight comes beside the first task, not beside the second.
  AccessSequence sequence = unit_reads(4, std::vector<std::size_t>{0, 1, 2});
  sequence.tasks[1].working_bytes = 2;
  const ResidencyPlan plan = plan_residency(sequence, 3, {.eviction = Eviction::furthest_next_use, .prefetches = true});
  CHECK(plan.tasks[0].beside == std::vector<Move>{{MoveKind::fetch, 1}});
  CHECK(plan.tasks[1].beside.empty());
  CHECK(plan.tasks[2].before == std::vector<Move>{{MoveKind::fetch, 2}});
  check_residency(sequence, plan, 3);
}

TEST_CASE("what the host updates leaves the device, and comes back new") {
  AccessSequence sequence;
  sequence.tensors = {{"weight", 4, true}, {"gradient", 2, false}, {"moments", 8, true}};
  sequence.tasks = {
      {{{0, Access::read, false}, {1, Access::make, false}}, 0, TaskPlace::device},
      {{{1, Access::read, true}, {2, Access::change, false}, {0, Access::change, false}}, 0, TaskPlace::host}};
  const ResidencyPlan plan = steady_residency(sequence, 6, {.eviction = Eviction::furthest_next_use});
  const Traffic traffic = check_residency(sequence, plan, 6).traffic;
  // ZeRO-Offload's: the weights down to the device, the gradients up, and the moments stay.
  CHECK(traffic.fetched == 4);
  CHECK(traffic.written_back == 2);
  // It returns at once where it does not stand in the way.
  const ResidencyPlan early = steady_residency(sequence, 6, {.eviction = Eviction::furthest_next_use, .returns = true});
  CHECK(early.tasks[1].beside == std::vector<Move>{{MoveKind::fetch, 0}});
  CHECK(early.start == std::vector<DeviceTensor>{{0, false}});
  CHECK(check_residency(sequence, early, 6).traffic.bytes() == traffic.bytes());
  sequence.tasks.push_back({{}, 3, TaskPlace::device});
  CHECK(plan_residency(sequence, 6, {.returns = true}).tasks[1].beside.empty());
  CHECK(plan_residency(sequence, 7, {.returns = true}).tasks[1].beside.size() == 1);
}

TEST_CASE("nothing is fetched ahead of the host's update of it, which would make the fetch vain") {
  AccessSequence sequence;
  sequence.tensors = {{"a", 1, true}, {"b", 1, true}};
  sequence.tasks = {{{{0, Access::read, false}}, 0, TaskPlace::device},
                    {{{1, Access::change, false}}, 0, TaskPlace::host},
                    {{{1, Access::read, false}}, 0, TaskPlace::device}};
  const ResidencyPlan plan = plan_residency(sequence, 2, {.prefetches = true});
  CHECK(check_residency(sequence, plan, 2).traffic.fetches == 2);
}

TEST_CASE("every policy keeps every rule on random steps within every budget down to the least") {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const AccessSequence sequence = random_sequence(random);
    const std::int64_t least = least_budget(sequence);
    CHECK_THROWS_AS(plan_residency(sequence, least - 1, {}), Error);
    for (const Eviction eviction : all_evictions)
      for (const std::int64_t budget : {least, least + 1, least + 5, least + 60}) {
        const ResidencyPolicy policy{eviction, random() % 2 == 0, random() % 2 == 0, random() % 2 == 0};
        ResidencyPlan plan = plan_residency(sequence, budget, policy);
        CHECK_NOTHROW(check_residency(sequence, plan, budget));
        flush(plan);
        CHECK_NOTHROW(check_residency(sequence, plan, budget));
        const ResidencyPlan steady = steady_residency(sequence, budget, policy);
        CHECK_NOTHROW(check_residency(sequence, steady, budget));
      }
  }
}

}  // namespace llmtrain::test
