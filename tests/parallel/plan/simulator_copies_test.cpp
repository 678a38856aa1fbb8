// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <random>
#include <vector>

#include "parallel/plan/simulator/copy_streams.h"
#include "tests/parallel/plan/simulator_case.h"

namespace llmtrain {
namespace {

// One rank with one stage and two micro-batches: F0 0-1, F1 1-2, B0 2-4, B1 4-6, OptimizerStep 6-7.
Simulation run_with(const std::vector<InstructionCopies>& copies, double contention = 0) {
  const ScheduleShape shape{.micro_batches = 2};
  return simulate(make_schedule(shape), equal_costs(shape, {.optimizer = 1}), equal_memory(shape), Timeline::record,
                  {{copies}, contention});
}

double start_of(const Simulation& simulation, int instruction) {
  for (const TimelineEntry& entry : simulation.timeline)
    if (entry.instruction == instruction) return entry.start_seconds;
  return -1;
}

constexpr Copy to_device(double seconds) { return {CopyLane::to_device, seconds}; }
constexpr Copy to_host(double seconds) { return {CopyLane::to_host, seconds}; }

TEST_CASE("without copies a step is as long as ever") {
  CHECK(run_with(std::vector<InstructionCopies>(5)).step_seconds == 7);
}

TEST_CASE("an instruction waits for what comes before it, and hides what comes beside the one before") {
  std::vector<InstructionCopies> copies(5);
  copies[0].before = {to_device(0.5)};
  copies[0].beside = {to_device(0.75)};
  copies[2].beside = {to_device(2.5)};
  const Simulation simulation = run_with(copies);
  CHECK(start_of(simulation, 0) == 0.5);
  CHECK(start_of(simulation, 1) == 1.5);
  CHECK(start_of(simulation, 2) == 2.5);
  // From 2.5 to 5, where the backward before ends at 4.5.
  CHECK(start_of(simulation, 3) == 5);
  CHECK(simulation.step_seconds == 8);
  CHECK(simulation.ranks[0].exposed_copy_seconds == 1);
}

TEST_CASE("a copy to the host is waited for where its memory is needed, and by a fetch behind it") {
  std::vector<InstructionCopies> copies(5);
  copies[0].beside = {to_host(3)};
  CHECK(start_of(run_with(copies), 1) == 1);
  copies[1].waits_for_room = true;
  CHECK(start_of(run_with(copies), 1) == 3);
  copies[1] = {{to_device(1)}, {}, false};
  CHECK(start_of(run_with(copies), 1) == 4);
}

TEST_CASE("directions that move at once slow each other down by their contention") {
  // Alone 2 and 3 seconds; at half of the rate the first ends at 4, when the second has one second left.
  CopyStreams streams(0.5);
  CHECK(streams.begin({{}, {to_device(2), to_host(3)}, false}, 0, 0) == 0);
  CHECK(streams.begin({{}, {}, false}, 0, 0) == 4);
  CHECK(streams.begin({{}, {}, true}, 4, 4) == 5);
  CHECK(streams.busy_seconds(CopyLane::to_device) == 4);
  CHECK(streams.busy_seconds(CopyLane::to_host) == 5);
}

TEST_CASE("the host works on what has come, beside passes, and a step ends with it") {
  std::vector<InstructionCopies> copies(5);
  copies[3].beside = {to_host(1), {CopyLane::host_work, 5}};
  const Simulation simulation = run_with(copies);
  // From 4 to 5 the copy, then the work, beside the last backward and the optimizer of the device.
  CHECK(start_of(simulation, 4) == 6);
  CHECK(simulation.step_seconds == 10);
  CHECK(simulation.ranks[0].exposed_copy_seconds == 3);
}

TEST_CASE("what returns follows the host's work, and a fetch behind it shares the way instead of waiting") {
  CopyStreams streams;
  streams.begin({{}, {to_host(1), {CopyLane::host_work, 3}, {CopyLane::returning, 2}}, false}, 0, 0);
  // From 1 on alone, from 4 to 7 at half of the rate beside what returns, which ends half a second later.
  CHECK(streams.begin({{to_device(4.5)}, {}, false}, 0, 0) == 7);
  CHECK(streams.finish() == 7.5);
}

TEST_CASE("an update of one stage takes its own time") {
  const ScheduleShape shape{.loops = 2, .micro_batches = 1};
  Schedule schedule = make_schedule(shape);
  std::vector<Instruction>& instructions = schedule.ranks[0].instructions;
  REQUIRE(instructions.back().operation == Operation::optimizer_step);
  instructions.back().stage = 0;
  instructions.insert(instructions.begin() + 3, {.operation = Operation::optimizer_step, .stage = 1});
  StepCosts costs = equal_costs(shape, {.optimizer = 100});
  costs.stages[0].update_seconds = 0.25;
  costs.stages[1].update_seconds = 0.5;
  const Simulation simulation = simulate(schedule, costs, equal_memory(shape));
  CHECK(simulation.step_seconds == 2 * (1 + 2) + 0.75);
  CHECK(simulation.ranks[0].optimizer_seconds == 0.75);
}

TEST_CASE("copies never make a step shorter, nor longer than all of them one after the other") {
  std::mt19937 random(5);
  const auto seconds = [&] { return static_cast<double>(random() % 8) / 4; };
  for (int round = 0; round < 500; ++round) {
    std::vector<InstructionCopies> copies(5);
    double sum = 0;
    for (InstructionCopies& each : copies)
      for (std::vector<Copy>* list : {&each.before, &each.beside})
        for (unsigned i = random() % 3; i > 0; --i) {
          list->push_back({static_cast<CopyLane>(random() % copy_lanes), seconds()});
          sum += list->back().seconds;
        }
    for (InstructionCopies& each : copies) each.waits_for_room = random() % 2 == 0;
    const double contention = 0.25 * static_cast<double>(random() % 3);
    const double step = run_with(copies, contention).step_seconds;
    CHECK(step >= 7);
    // Two that share move at 1 − contention each: together no slower than one after the other up to a half.
    CHECK(step <= 7 + sum + 1e-9);
  }
}

}  // namespace
}  // namespace llmtrain
