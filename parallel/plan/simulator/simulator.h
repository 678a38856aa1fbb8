// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/plan/simulator/step_costs.h"
#include "parallel/plan/simulator/step_memory.h"
#include "parallel/schedule/schedule.h"

namespace llmtrain {

// Where an instruction ran: each rank has these streams. Compute and data do one instruction at a time, transfer one
// send and one receive.
enum class Stream { compute, data, transfer };

struct TimelineEntry {
  std::int32_t rank = 0;         // pipeline rank
  std::int32_t instruction = 0;  // index into the rank's schedule
  Stream stream{};
  double start_seconds = 0;
  double end_seconds = 0;
};

struct MemorySample {
  double seconds = 0;
  MemoryBytes bytes;
};

struct RankSimulation {
  double busy_seconds = 0;              // passes, with the collectives inside and the slowdown by those beside them
  double communication_seconds = 0;     // of it, collectives inside passes
  double recompute_seconds = 0;         // of it
  double slowed_seconds = 0;            // of it, what gathers and reductions beside the passes take from them
  double exposed_data_seconds = 0;      // the compute stream waits for gathers or reductions, and slowed_seconds
  double exposed_transfer_seconds = 0;  // the compute stream waits for a tensor that is on its way
  double optimizer_seconds = 0;
  double end_seconds = 0;             // when all streams are done
  double peak_bytes = 0;              // maximum over time of the sum
  MemoryBytes high_water;             // each category on its own
  std::int32_t peak_instruction = 0;  // index of the instruction that runs at the peak
  MemoryBytes final_bytes;            // after the last instruction: equal to the first
  std::vector<MemorySample> memory;   // after the changes of an instant; empty without `timeline`
};

struct Simulation {
  double step_seconds = 0;
  double window_seconds = 0;   // first start to last end of a pass over all ranks
  double bubble_fraction = 0;  // 1 − busy ÷ window for the rank with the most busy time
  std::vector<RankSimulation> ranks;
  std::vector<TimelineEntry> timeline;  // by rank and start; empty unless asked for
};

enum class Timeline { leave_out, record };

// Runs one step of the schedule on an event-driven clock, one clock for all pipeline ranks; ranks of the same tensor,
// context and data groups do the same at the same time and are simulated once. The schedule has passed check() with as
// many buffers as micro-batches; the costs and the memory are of its stages and ranks.
//
// Compute stream: passes and OptimizerStep, in order. A pass starts when the rank is free, its input has arrived and at
// ZeRO-3 its weights are gathered; the first backward of a reduction group also waits for the stage's last reduction,
// whose buffer it takes. OptimizerStep waits for the rank's reductions, not for other ranks.
// Data stream: gathers and reductions, in the order of issue, each from when the compute stream has come to it. With
// `overlap` they run beside passes, and a pass beside them for t seconds takes compute_slowdown · t longer (0 ≤
// compute_slowdown < 1); without it they hold the compute stream. Gathers after OptimizerStep lengthen the step.
// Transfer stream: a rank sends one tensor and receives one at a time, in the order in which they are made; a transfer
// starts when the links of both ranks are free. With `blocking_transfers` the sender holds its compute stream during a
// transfer and the receiver from its receive instruction on; a send and a receive without a pass between them go
// together. Waiting for a tensor is no busy time.
Simulation simulate(const Schedule& schedule, const StepCosts& costs, const StepMemory& memory,
                    Timeline timeline = Timeline::leave_out);

}  // namespace llmtrain
