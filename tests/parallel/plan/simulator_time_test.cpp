// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <functional>

#include "tests/parallel/plan/simulator_case.h"

namespace llmtrain {
namespace {

using Kind = PipelineSchedule;

struct TimedCase {
  ScheduleShape shape;
  CaseSeconds seconds;
};

Simulation run(const TimedCase& c, const std::function<void(StepCosts&)>& change = {}) {
  StepCosts costs = equal_costs(c.shape, c.seconds);
  if (change) change(costs);
  return simulate(make_schedule(c.shape), costs, equal_memory(c.shape), Timeline::record);
}

// "F0.1 2-3" for each pass of the rank, "step 9-10" for its optimizer.
std::string passes(const ScheduleShape& shape, const Simulation& simulation, std::int32_t rank, Stream stream) {
  const Schedule schedule = make_schedule(shape);
  std::string text;
  const auto number = [](double value) {
    const auto hundredths = static_cast<int>(value * 100 + 0.5);
    std::string digits = std::to_string(hundredths / 100);
    if (hundredths % 100 != 0) digits.append(".").append(std::to_string(hundredths % 100));
    return digits;
  };
  for (const TimelineEntry& entry : simulation.timeline) {
    if (entry.rank != rank || entry.stream != stream) continue;
    const Instruction& instruction =
        schedule.ranks[static_cast<std::size_t>(rank)].instructions[static_cast<std::size_t>(entry.instruction)];
    const std::string operation = to_text(instruction).substr(0, 1);
    text += (text.empty() ? "" : ", ") + operation;
    if (instruction.stage >= 0) text += std::to_string(instruction.stage);
    if (instruction.micro >= 0) text.append(".").append(std::to_string(instruction.micro));
    text.append(" ").append(number(entry.start_seconds)).append("-").append(number(entry.end_seconds));
  }
  return text;
}

TEST_CASE("one rank: passes one after the other, the optimizer, the overhead of the step") {
  const TimedCase c{{.micro_batches = 2}, {.optimizer = 0.5}};
  const Simulation simulation = run(c, [](StepCosts& costs) {
    costs.step_overhead_seconds = 0.25;
    costs.stages[0].backward = {.seconds = 2, .communication_seconds = 0.5, .recompute_seconds = 0.75};
  });
  CHECK(passes(c.shape, simulation, 0, Stream::compute) == "F0.0 0-1, F0.1 1-2, B0.0 2-4, B0.1 4-6, O 6-6.50");
  CHECK(simulation.step_seconds == 6.75);
  CHECK(simulation.window_seconds == 6);
  CHECK(simulation.bubble_fraction == 0);
  CHECK(simulation.ranks[0].busy_seconds == 6);
  CHECK(simulation.ranks[0].communication_seconds == 1);
  CHECK(simulation.ranks[0].recompute_seconds == 1.5);
  CHECK(simulation.ranks[0].optimizer_seconds == 0.5);
}

TEST_CASE("a pass waits for its tensor to be computed and to arrive") {
  const TimedCase c{{.kind = Kind::gpipe, .pipeline = 2, .micro_batches = 1}, {.transfer = 0.5, .optimizer = 1}};
  const Simulation simulation = run(c);
  CHECK(passes(c.shape, simulation, 0, Stream::compute) == "F0.0 0-1, B0.0 5-7, O 7-8");
  CHECK(passes(c.shape, simulation, 1, Stream::compute) == "F1.0 1.50-2.50, B1.0 2.50-4.50, O 4.50-5.50");
  CHECK(passes(c.shape, simulation, 0, Stream::transfer) == "S0.0 1-1.50, R0.0 4.50-5");
  CHECK(simulation.step_seconds == 8);
  CHECK(simulation.bubble_fraction == Approx(1 - 3.0 / 7));
  CHECK(simulation.ranks[0].exposed_transfer_seconds == 0.5);
  CHECK(simulation.ranks[1].exposed_transfer_seconds == 0.5);
}

TEST_CASE("a link transfers one tensor at a time") {
  const TimedCase c{{.kind = Kind::gpipe, .pipeline = 2, .micro_batches = 2}, {.transfer = 3}};
  const Simulation simulation = run(c);
  CHECK(passes(c.shape, simulation, 0, Stream::transfer) == "S0.0 1-4, S0.1 4-7, R0.0 10-13, R0.1 13-16");
  CHECK(passes(c.shape, simulation, 1, Stream::compute) == "F1.0 4-5, F1.1 7-8, B1.0 8-10, B1.1 10-12, O 12-12");
}

TEST_CASE("1f1b with overlapped transfers, and with transfers that block both ranks") {
  const TimedCase c{{.kind = Kind::one_forward_one_backward, .pipeline = 2, .micro_batches = 2}, {.transfer = 0.5}};
  const Simulation beside = run(c);
  CHECK(passes(c.shape, beside, 0, Stream::compute) == "F0.0 0-1, F0.1 1-2, B0.0 5-7, B0.1 8-10, O 10-10");
  CHECK(passes(c.shape, beside, 1, Stream::compute) ==
        "F1.0 1.50-2.50, B1.0 2.50-4.50, F1.1 4.50-5.50, B1.1 5.50-7.50, O 7.50-7.50");
  const Simulation holding = run(c, [](StepCosts& costs) { costs.blocking_transfers = true; });
  CHECK(passes(c.shape, holding, 0, Stream::compute) ==
        "F0.0 0-1, F0.1 1.50-2.50, B0.0 5-7, B0.1 8.50-10.50, O 10.50-10.50");
  // The gradient is sent while the next activation is received.
  CHECK(passes(c.shape, holding, 1, Stream::compute) ==
        "F1.0 1.50-2.50, B1.0 2.50-4.50, F1.1 5-6, B1.1 6-8, O 8.50-8.50");
  CHECK(holding.ranks[1].exposed_transfer_seconds == 1);
}

const TimedCase sharded{{.loops = 2, .micro_batches = 1, .zero_stage = 3, .reduces = true},
                        {.gather = 1, .reduce = 1, .optimizer = 0.5}};

TEST_CASE("gathers and reductions overlap with passes") {
  const Simulation simulation = run(sharded);
  CHECK(passes(sharded.shape, simulation, 0, Stream::data) == "G0 0-1, G1 1-2, G1 3-4, G0 4-5, R1 6-7, R0 8-9");
  CHECK(passes(sharded.shape, simulation, 0, Stream::compute) == "F0.0 1-2, F1.0 2-3, B1.0 4-6, B0.0 6-8, O 9-9.50");
  CHECK(simulation.step_seconds == 9.5);
  CHECK(simulation.window_seconds == 7);
  CHECK(simulation.ranks[0].busy_seconds == 6);
  CHECK(simulation.ranks[0].exposed_data_seconds == 3);
  CHECK(simulation.ranks[0].slowed_seconds == 0);
}

TEST_CASE("collectives slow down concurrent passes") {
  const Simulation simulation = run(sharded, [](StepCosts& costs) { costs.compute_slowdown = 0.5; });
  CHECK(passes(sharded.shape, simulation, 0, Stream::compute) ==
        "F0.0 1-2.50, F1.0 2.50-3.50, B1.0 4.50-7, B0.0 7-9.50, O 10.50-11");
  CHECK(simulation.ranks[0].slowed_seconds == 1.5);
  CHECK(simulation.ranks[0].busy_seconds == 7.5);
  CHECK(simulation.ranks[0].exposed_data_seconds == 4.5);
}

TEST_CASE("a pass that ends during a collective, and one that starts in the middle of it") {
  // The gather of stage 1 runs from 1 to 5: F0 takes 1 ÷ (1 − 0.5) of it.
  TimedCase c = sharded;
  const Simulation simulation = run(c, [](StepCosts& costs) {
    costs.compute_slowdown = 0.5;
    costs.stages[1].gather_seconds = 4;
  });
  CHECK(passes(c.shape, simulation, 0, Stream::compute) ==
        "F0.0 1-3, F1.0 5-6, B1.0 10-12.50, B0.0 12.50-15, O 16-16.50");
}

TEST_CASE("without overlap gathers and reductions block the passes") {
  const Simulation simulation = run(sharded, [](StepCosts& costs) {
    costs.overlap = false;
    costs.compute_slowdown = 0.5;
  });
  CHECK(passes(sharded.shape, simulation, 0, Stream::compute) == "F0.0 2-3, F1.0 3-4, B1.0 6-8, B0.0 9-11, O 12-12.50");
  CHECK(simulation.ranks[0].exposed_data_seconds == 6);
  CHECK(simulation.ranks[0].slowed_seconds == 0);
}

TEST_CASE("weights that the last step updated are gathered before the forwards, or after the step without overlap") {
  TimedCase c = sharded;
  c.shape.zero_stage = 1;
  const Simulation simulation = run(c);
  CHECK(passes(c.shape, simulation, 0, Stream::data) == "G0 0-1, G1 1-2, R1 5-6, R0 7-8");
  CHECK(passes(c.shape, simulation, 0, Stream::compute) == "F0.0 1-2, F1.0 2-3, B1.0 3-5, B0.0 5-7, O 8-8.50");
  CHECK(simulation.step_seconds == 8.5);
  CHECK(simulation.ranks[0].exposed_data_seconds == 2);
  const auto blocks = [](StepCosts& costs) { costs.overlap = false; };
  CHECK(passes(c.shape, run(c, blocks), 0, Stream::data) == "R1 4-5, R0 7-8, G0 8.50-9.50, G1 9.50-10.50");
  CHECK(run(c, blocks).step_seconds == 10.5);
}

// One stage with one micro-batch at ZeRO-1: forward 1, backward 2, the rest as given.
Simulation in_buckets(double seconds, double buckets, double slowdown = 0) {
  const TimedCase c{{.loops = 1, .micro_batches = 1, .zero_stage = 1, .reduces = true},
                    {.gather = seconds, .reduce = seconds}};
  return run(c, [&](StepCosts& costs) {
    costs.stages[0].buckets = buckets;
    costs.compute_slowdown = slowdown;
  });
}

TEST_CASE("traffic in buckets shows its first or last one, and what the pass is too short to hide") {
  const ScheduleShape shape{.loops = 1, .micro_batches = 1, .zero_stage = 1, .reduces = true};
  // Short traffic: a quarter before the forward, a quarter after the backward.
  const Simulation hidden = in_buckets(1, 4);
  CHECK(passes(shape, hidden, 0, Stream::compute) == "F0.0 0.25-1.25, B0.0 1.25-3.25, O 3.50-3.50");
  CHECK(passes(shape, hidden, 0, Stream::data) == "G0 0-1, R0 2.50-3.50");
  CHECK(hidden.ranks[0].exposed_data_seconds == 0.5);
  // Long traffic: the last quarter of the forward follows the last bucket, the first bucket the first quarter of the
  // backward.
  const Simulation shown = in_buckets(8, 4);
  CHECK(passes(shape, shown, 0, Stream::compute) == "F0.0 2-8.25, B0.0 8.25-10.25, O 16.75-16.75");
  CHECK(passes(shape, shown, 0, Stream::data) == "G0 0-8, R0 8.75-16.75");
  // One bucket hides nothing.
  CHECK(in_buckets(1, 1).step_seconds == 5);
}

TEST_CASE("a pass is slowed down by its own traffic, which then hides more of itself") {
  const ScheduleShape shape{.loops = 1, .micro_batches = 1, .zero_stage = 1, .reduces = true};
  // Beside 1.5 of the traffic the backward proceeds at half its speed: 3 seconds instead of 1.5.
  const Simulation simulation = in_buckets(4, 4, 0.5);
  CHECK(passes(shape, simulation, 0, Stream::compute) == "F0.0 1-4.25, B0.0 4.25-7.75, O 8.75-8.75");
  CHECK(passes(shape, simulation, 0, Stream::data) == "G0 0-4, R0 4.75-8.75");
}

TEST_CASE("a reduction beside its backward waits for the gather that is running") {
  TimedCase c = sharded;
  c.seconds.gather = 1.75;
  const Simulation simulation = run(c, [](StepCosts& costs) {
    for (StageCost& stage : costs.stages) stage.buckets = 2;
  });
  CHECK(passes(c.shape, simulation, 0, Stream::data) ==
        "G0 0-1.75, G1 1.75-3.50, G1 4.50-6.25, G0 6.25-8, R1 8-9, R0 9.75-10.75");
}

TEST_CASE("what only the step's last reduction sends comes once") {
  const TimedCase c{{.kind = Kind::interleaved, .loops = 1, .micro_batches = 2, .zero_stage = 2, .reduces = true},
                    {.reduce = 0.5}};
  const Simulation simulation = run(c, [](StepCosts& costs) { costs.stages[0].last_reduce_seconds = 3; });
  CHECK(passes(c.shape, simulation, 0, Stream::data) == "G0 0-0, R0 3-3.50, R0 6-9.50");
}

TEST_CASE("a backward waits for the buffer that the last reduction still reads") {
  const TimedCase c{{.kind = Kind::interleaved, .loops = 1, .micro_batches = 2, .zero_stage = 2, .reduces = true},
                    {.gather = 0, .reduce = 5}};
  const Simulation simulation = run(c);
  CHECK(passes(c.shape, simulation, 0, Stream::compute) == "F0.0 0-1, B0.0 1-3, F0.1 3-4, B0.1 8-10, O 15-15");
  CHECK(simulation.ranks[0].exposed_data_seconds == 9);
}

// One stage with one micro-batch at ZeRO-3, whose passes of 1 and 2 seconds want the adapters for half of their time.
Simulation beside_exchanges(const TimedCase& c, double of_gathers) {
  return run(c, [&](StepCosts& costs) {
    for (StageCost& stage : costs.stages) {
      stage.forward.wires.adapters = stage.forward.seconds / 2;
      stage.backward.wires.adapters = stage.backward.seconds / 2;
      stage.forward.wires.links = stage.forward.seconds;
      stage.gather_wires.adapters = of_gathers * stage.gather_seconds;
    }
  });
}

TEST_CASE("exchanges inside passes share the adapters with gathers, and both take longer") {
  // Both halves want the adapters at once for half of the time: F0 needs 1.5 seconds beside G1, which needs as long.
  const Simulation shared = beside_exchanges(sharded, 1);
  CHECK(passes(sharded.shape, shared, 0, Stream::compute) ==
        "F0.0 1-2.50, F1.0 2.50-3.50, B1.0 4.50-7, B0.0 7-9, O 10-10.50");
  CHECK(passes(sharded.shape, shared, 0, Stream::data) ==
        "G0 0-1, G1 1-2.50, G1 3.50-4.50, G0 4.50-6, R1 7-8, R0 9-10");
  CHECK(shared.ranks[0].slowed_seconds == 1);
  // Gathers over links alone do not meet what the passes send over adapters.
  CHECK(beside_exchanges(sharded, 0).step_seconds == run(sharded).step_seconds);
}

TEST_CASE("a tensor on its way to the next stage shares the adapters with a gather") {
  const TimedCase c{
      {.kind = Kind::breadth_first, .pipeline = 2, .loops = 2, .micro_batches = 2, .zero_stage = 1, .reduces = true},
      {.transfer = 0.5, .gather = 2}};
  const auto over = [](const WireSeconds& of_gather) {
    return [=](StepCosts& costs) {
      for (StageCost& stage : costs.stages) stage.gather_wires = of_gather;
      costs.transfer_wires.assign(4, {0, 0.5});
    };
  };
  // Two transfers of 0.5 seconds beside the second gather make it end one second later.
  const Simulation shared = run(c, over({0, 2}));
  CHECK(passes(c.shape, shared, 0, Stream::transfer).substr(0, 19) == "S0.0 3-4, S0.1 4-5,");
  CHECK(passes(c.shape, shared, 0, Stream::data).substr(0, 14) == "G0 0-2, G2 2-5");
  const Simulation apart = run(c, over({2, 0}));
  CHECK(passes(c.shape, apart, 0, Stream::transfer).substr(0, 25) == "S0.0 3-3.50, S0.1 4-4.50,");
  CHECK(passes(c.shape, apart, 0, Stream::data).substr(0, 14) == "G0 0-2, G2 2-4");
}

TEST_CASE("exchanges inside a pass share the adapters with a tensor that is being sent") {
  const TimedCase c{{.kind = Kind::gpipe, .pipeline = 2, .micro_batches = 3}, {.transfer = 0.5}};
  const Simulation simulation = run(c, [](StepCosts& costs) {
    costs.stages[0].forward.wires.adapters = 0.5;
    costs.transfer_wires.assign(2, {0, 0.5});
  });
  // Half of what the pass does for 0.5 seconds waits; the next tensor could leave only when the wires are free again.
  CHECK(passes(c.shape, simulation, 0, Stream::compute).substr(0, 33) == "F0.0 0-1, F0.1 1-2.25, F0.2 2.25-");
  CHECK(passes(c.shape, simulation, 0, Stream::transfer).substr(0, 29) == "S0.0 1-1.50, S0.1 2.25-2.75, ");
}

TEST_CASE("the busiest rank determines the bubble") {
  const TimedCase c{{.kind = Kind::gpipe, .pipeline = 2, .micro_batches = 1}, {}};
  const Simulation simulation = run(c, [](StepCosts& costs) { costs.stages[1].backward.seconds = 6; });
  CHECK(simulation.window_seconds == 10);
  CHECK(simulation.bubble_fraction == Approx(0.3));
}

}  // namespace
}  // namespace llmtrain
