// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/plan/schedule.h"
#include "parallel/plan/step_costs.h"
#include "parallel/plan/step_memory.h"

namespace llmtrain {

// Where an instruction ran: each rank has these streams, and each is busy with one instruction at a time.
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
  double busy_seconds = 0;           // passes, with the collectives inside them
  double communication_seconds = 0;  // of it, collectives inside passes
  double recompute_seconds = 0;      // of it
  double exposed_data_seconds = 0;   // the compute stream waits for gathers, reductions, or is slowed by them
  double optimizer_seconds = 0;
  double peak_bytes = 0;              // maximum over time of the sum
  MemoryBytes high_water;             // each category on its own
  std::int32_t peak_instruction = 0;  // index of the instruction that runs at the peak
  MemoryBytes final_bytes;            // after the last instruction: equal to the first
  std::vector<MemorySample> memory;   // at every change; empty without `timeline`
};

struct Simulation {
  double step_seconds = 0;
  double window_seconds = 0;   // first start to last end of a pass over all ranks
  double bubble_fraction = 0;  // 1 − busy ÷ window for the rank with the most busy time
  std::vector<RankSimulation> ranks;
  std::vector<TimelineEntry> timeline;  // empty unless asked for
};

enum class Timeline { leave_out, record };

// Runs one step of the schedule on an event-driven clock, one clock for all pipeline ranks; ranks of the same tensor,
// context and data groups do the same at the same time and are simulated once. The schedule has passed check().
Simulation simulate(const Schedule& schedule, const StepCosts& costs, const StepMemory& memory,
                    Timeline timeline = Timeline::leave_out);

}  // namespace llmtrain
