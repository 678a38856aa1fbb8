// SPDX-License-Identifier: Apache-2.0
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "tests/parallel/plan/random_shape.h"
#include "tests/parallel/plan/simulator_case.h"

namespace llmtrain {
namespace {

using Kind = PipelineSchedule;

double eighths(int most) { return *rc::gen::inRange(0, most) / 8.0; }

// A different cost per stage, in exact binary fractions.
StepCosts random_costs(const ScheduleShape& shape) {
  StepCosts costs = equal_costs(shape, {});
  for (StageCost& stage : costs.stages)
    stage = {.forward = {.seconds = 0.125 + eighths(16)},
             .backward = {.seconds = 0.125 + eighths(32)},
             .gather_seconds = eighths(16),
             .reduce_seconds = eighths(16),
             .last_reduce_seconds = eighths(4),
             .buckets = std::exp2(*rc::gen::inRange(0, 3))};
  for (double& seconds : costs.transfer_seconds) seconds = eighths(8);
  for (double& seconds : costs.optimizer_seconds) seconds = eighths(8);
  costs.step_overhead_seconds = eighths(8);
  costs.compute_slowdown = eighths(7);
  costs.overlap = *rc::gen::arbitrary<bool>();
  costs.blocking_transfers = *rc::gen::arbitrary<bool>();
  return costs;
}

// At most the time of what occupies them.
WireSeconds random_wires(double seconds) {
  return WireSeconds{*rc::gen::inRange(0, 5) / 4.0, *rc::gen::inRange(0, 5) / 4.0} * seconds;
}

void add_random_wires(StepCosts& costs) {
  for (StageCost& stage : costs.stages) {
    stage.forward.wires = random_wires(stage.forward.seconds);
    stage.backward.wires = random_wires(stage.backward.seconds);
    stage.gather_wires = random_wires(stage.gather_seconds);
    stage.reduce_wires = random_wires(stage.reduce_seconds);
    stage.last_reduce_wires = random_wires(stage.last_reduce_seconds);
  }
  for (const double seconds : costs.transfer_seconds) costs.transfer_wires.push_back(random_wires(seconds));
}

// What all that a rank sends in a step occupies.
WireSeconds wires_of(const Schedule& schedule, const StepCosts& costs, std::int32_t rank) {
  WireSeconds sum;
  std::set<std::int32_t> reduced;
  for (const Instruction& i : schedule.ranks[static_cast<std::size_t>(rank)].instructions) {
    const StageCost* stage = i.stage >= 0 ? &costs.stages[static_cast<std::size_t>(i.stage)] : nullptr;
    if (i.operation == Operation::forward) sum += stage->forward.wires;
    if (i.operation == Operation::backward) sum += stage->backward.wires;
    if (i.operation == Operation::gather_weights) sum += stage->gather_wires;
    if (i.operation == Operation::reduce_gradients) sum += stage->reduce_wires;
    // Each stage once.
    if (i.operation == Operation::reduce_gradients && reduced.insert(i.stage).second) sum += stage->last_reduce_wires;
    if (i.operation == Operation::send_activation) sum += costs.transfer_wires[static_cast<std::size_t>(i.stage)];
    if (i.operation == Operation::send_gradient) sum += costs.transfer_wires[static_cast<std::size_t>(i.stage - 1)];
  }
  return sum;
}

using PassName = std::tuple<Operation, std::int32_t, std::int32_t>;

// The longest chain of passes, each after the previous one on its rank and after its input has arrived; found by
// iterating over all passes until nothing changes.
double critical_path(const Schedule& schedule, const StepCosts& costs) {
  const ScheduleShape& shape = schedule.shape;
  std::map<PassName, double> ends;
  const auto hop = [&](std::int32_t from_stage) {
    return shape.pipeline == 1 ? 0 : costs.transfer_seconds[static_cast<std::size_t>(from_stage)];
  };
  double longest = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (const RankSchedule& rank : schedule.ranks) {
      double clock = 0;
      for (const Instruction& i : rank.instructions) {
        const bool forward = i.operation == Operation::forward;
        if (!forward && i.operation != Operation::backward) continue;
        double start = clock;
        if (forward && i.stage > 0)
          start = std::max(start, ends[{Operation::forward, i.stage - 1, i.micro}] + hop(i.stage - 1));
        if (!forward && i.stage + 1 < shape.stages() && i.stage >= shape.frozen_stages)
          start = std::max(start, ends[{Operation::backward, i.stage + 1, i.micro}] + hop(i.stage));
        const StageCost& cost = costs.stages[static_cast<std::size_t>(i.stage)];
        clock = start + (forward ? cost.forward : cost.backward).seconds;
        double& end = ends[{i.operation, i.stage, i.micro}];
        moved = moved || end != clock;
        end = clock;
      }
      longest = std::max(longest, clock);
    }
  }
  return longest;
}

TEST_CASE("time") {
  rc::prop("a step takes at least its critical path, and no longer without collectives and transfers", [] {
    const ScheduleShape shape = random_frozen_shape();
    const Schedule schedule = make_schedule(shape);
    StepCosts costs = random_costs(shape);
    const StepMemory memory = equal_memory(shape);
    RC_ASSERT(simulate(schedule, costs, memory).step_seconds >= critical_path(schedule, costs) - 1e-9);
    for (StageCost& stage : costs.stages) stage.gather_seconds = stage.reduce_seconds = stage.last_reduce_seconds = 0;
    std::fill(costs.transfer_seconds.begin(), costs.transfer_seconds.end(), 0);
    std::fill(costs.optimizer_seconds.begin(), costs.optimizer_seconds.end(), 0);
    const double expected = critical_path(schedule, costs) + costs.step_overhead_seconds;
    RC_ASSERT(std::abs(simulate(schedule, costs, memory).step_seconds - expected) < 1e-9);
  });

  rc::prop("the bubble of equal stages with free communication is (p − 1) / (m·v + p − 1)", [] {
    const ScheduleShape shape = random_shape();
    // Breadth-first needs as many micro-batches as ranks to keep all of them busy between loops.
    RC_PRE(shape.loops == 1 || shape.micro_batches >= shape.pipeline);
    const double ranks_behind = shape.pipeline - 1;
    const double expected = ranks_behind / (shape.micro_batches * shape.loops + ranks_behind);
    const Simulation simulation = simulate(make_schedule(shape), equal_costs(shape, {}), equal_memory(shape));
    RC_ASSERT(std::abs(simulation.bubble_fraction - expected) < 1e-9);
  });

  rc::prop("no stream runs two instructions at once, and those of the compute stream sum up", [] {
    const ScheduleShape shape = random_shape();
    const Schedule schedule = make_schedule(shape);
    const Simulation simulation = simulate(schedule, random_costs(shape), equal_memory(shape), Timeline::record);
    // Sends and receives are two links of the transfer stream.
    std::map<std::tuple<std::int32_t, Stream, bool>, double> free_at;
    std::vector<double> computing(schedule.ranks.size(), 0);
    for (const TimelineEntry& entry : simulation.timeline) {
      // What takes no time occupies nothing, also not in the middle of an interval.
      if (entry.start_seconds == entry.end_seconds) continue;
      const auto rank = static_cast<std::size_t>(entry.rank);
      const Operation operation =
          schedule.ranks[rank].instructions[static_cast<std::size_t>(entry.instruction)].operation;
      const bool receives = operation == Operation::receive_activation || operation == Operation::receive_gradient;
      double& free = free_at[{entry.rank, entry.stream, receives}];
      RC_ASSERT(entry.start_seconds >= free - 1e-9);
      free = entry.end_seconds;
      if (entry.stream == Stream::compute) computing[rank] += entry.end_seconds - entry.start_seconds;
    }
    std::size_t timed = 0;
    for (std::size_t rank = 0; rank < schedule.ranks.size(); ++rank) {
      const RankSimulation& result = simulation.ranks[rank];
      RC_ASSERT(std::abs(computing[rank] - result.busy_seconds - result.optimizer_seconds) < 1e-9);
      // What goes to the host is on none of these streams.
      timed +=
          static_cast<std::size_t>(std::ranges::count_if(schedule.ranks[rank].instructions, [](const Instruction& i) {
            return i.operation != Operation::free_weights && i.operation != Operation::evict_gradients;
          }));
    }
    // A reduction may run in two parts: beside the backward, and the rest after it.
    std::set<std::pair<std::int32_t, std::int32_t>> drawn;
    for (const TimelineEntry& entry : simulation.timeline) drawn.emplace(entry.rank, entry.instruction);
    RC_ASSERT(drawn.size() == timed);
  });
}

TEST_CASE("wires") {
  rc::prop("no wire of a rank is busy for longer than the step lasts", [] {
    const ScheduleShape shape = random_shape();
    const Schedule schedule = make_schedule(shape);
    StepCosts costs = random_costs(shape);
    add_random_wires(costs);
    // As plans have it.
    costs.blocking_transfers = !costs.overlap;
    const Simulation simulation = simulate(schedule, costs, equal_memory(shape));
    for (std::int32_t rank = 0; rank < shape.pipeline; ++rank) {
      const WireSeconds busy = wires_of(schedule, costs, rank);
      RC_LOG() << "links " << busy.links << " adapters " << busy.adapters << " step " << simulation.step_seconds
               << "\n";
      RC_ASSERT(busy.longest() <= simulation.step_seconds + 1e-9);
    }
  });
}

TEST_CASE("memory") {
  rc::prop("memory returns to its initial value, and the peak is between its largest part and the sum of all", [] {
    const ScheduleShape shape = random_shape();
    const StepMemory memory = equal_memory(shape);
    const Simulation simulation = simulate(make_schedule(shape), random_costs(shape), memory);
    MemoryBytes resident = memory.rank;
    resident[MemoryCategory::weights] += shape.loops * 4096;
    resident[MemoryCategory::optimizer] += shape.loops * 8192;
    for (const RankSimulation& rank : simulation.ranks) {
      RC_ASSERT(rank.final_bytes.bytes == resident.bytes);
      RC_ASSERT(rank.peak_bytes > resident.total());
      RC_ASSERT(rank.peak_bytes <= rank.high_water.total());
    }
  });

  rc::prop("1f1b stores the activations of p − r micro-batches on rank r, breadth-first those of all", [] {
    ScheduleShape shape = random_shape();
    shape.kind = *rc::gen::element(Kind::breadth_first, Kind::one_forward_one_backward);
    if (shape.kind == Kind::one_forward_one_backward) shape.loops = 1;
    const Simulation simulation = simulate(make_schedule(shape), random_costs(shape), equal_memory(shape));
    for (std::int32_t rank = 0; rank < shape.pipeline; ++rank) {
      const std::int32_t kept = shape.kind == Kind::breadth_first
                                    ? shape.micro_batches * shape.loops
                                    : std::min(shape.micro_batches, shape.pipeline - rank);
      const RankSimulation& result = simulation.ranks[static_cast<std::size_t>(rank)];
      RC_ASSERT(result.high_water[MemoryCategory::activations] == kept * 16);
    }
  });
}

}  // namespace
}  // namespace llmtrain
