// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "parallel/plan/simulator/step_copies.h"
#include "parallel/plan/simulator/step_costs.h"
#include "parallel/plan/simulator/step_memory.h"
#include "parallel/schedule/schedule.h"

namespace llmtrain {

// The streams of each rank on which instructions run. Compute and data run one instruction at a time, transfer one
// send and one receive.
enum class Stream { compute, data, transfer };

struct TimelineEntry {
  std::int32_t rank = 0;         // pipeline rank
  std::int32_t instruction = 0;  // index into the rank's schedule
  Stream stream{};
  double start_seconds = 0;
  double end_seconds = 0;
  double seconds_alone = 0;  // what it takes if nothing runs beside it; 0 if measured
};

struct MemorySample {
  double seconds = 0;
  MemoryBytes bytes;
};

struct RankSimulation {
  double busy_seconds = 0;              // passes, with the collectives inside and the slowdown by concurrent ones
  double communication_seconds = 0;     // of it, collectives inside passes
  double recompute_seconds = 0;         // of it
  double slowed_seconds = 0;            // of it, time lost to concurrent gathers and reductions
  double exposed_data_seconds = 0;      // waits of the compute stream for gathers or reductions, plus slowed_seconds
  double exposed_transfer_seconds = 0;  // waits of the compute stream for a tensor in transfer
  double exposed_copy_seconds = 0;      // waits for copies from and to the host, and for what the host is left to do
  double optimizer_seconds = 0;
  double end_seconds = 0;             // when all streams are done
  double peak_bytes = 0;              // maximum over time of the sum over categories
  MemoryBytes high_water;             // maximum of each category on its own
  std::int32_t peak_instruction = 0;  // index of the instruction that runs at the peak
  double host_peak_bytes = 0;         // of host memory, with the activations of as many micro-batches as wait for their
                                      // backward at once
  MemoryBytes final_bytes;            // after the last instruction: equal to those at the start
  std::vector<MemorySample> memory;   // one per instant of change; empty with Timeline::leave_out
};

struct Simulation {
  double step_seconds = 0;
  double window_seconds = 0;   // first start to last end of a pass over all ranks
  double bubble_fraction = 0;  // 1 − busy ÷ window for the rank with the most busy time
  std::vector<RankSimulation> ranks;
  std::vector<TimelineEntry> timeline;  // sorted by rank and start; empty with Timeline::leave_out
};

enum class Timeline { leave_out, record };

// The stage before the cut that an instruction sends or receives across: an index into StepCosts::transfer_seconds.
inline std::size_t cut_of(const Instruction& transfer) {
  const bool is_with_next =
      transfer.operation == Operation::send_activation || transfer.operation == Operation::receive_gradient;
  return static_cast<std::size_t>(is_with_next ? transfer.stage : transfer.stage - 1);
}

// Simulates one step of the schedule, event by event, on one clock for all pipeline ranks; ranks of the same tensor,
// context and data groups do the same at the same time and are simulated once. The schedule must have passed check()
// with as many buffers as micro-batches; costs and memory must be those of its stages and ranks.
//
// Compute stream: passes and OptimizerStep, in order. A pass starts when the rank is free, its input has arrived and at
// ZeRO-3 its weights are gathered; the first backward of a reduction group also waits for the stage's last reduction,
// whose buffer it reuses. OptimizerStep waits for the rank's reductions, not for other ranks.
// Data stream: gathers and reductions in the order of issue, each no earlier than the compute stream reaches it. With
// `overlap` they run concurrently with passes, and t seconds of concurrency lengthen a pass by compute_slowdown · t
// (0 ≤ compute_slowdown < 1); without it they block the compute stream. Gathers after OptimizerStep lengthen the step.
// Wires: a rank's collectives inside passes, gathers and reductions and what it sends share its links and its share of
// the node's adapters. Of two that want the same wires at once, each gets half: both take longer by the time for which
// they want them together. A tensor on its way is not delayed by what starts after it; the next tensor is.
// Transfer stream: a rank sends one tensor and receives one at a time, in the order in which they are produced; a
// transfer starts when the links of both ranks are free. With `blocking_transfers` the sender's compute stream is
// blocked during a transfer and the receiver's from its receive instruction on; a send and a receive without a pass
// between them run together. Waiting for a tensor does not count as busy time.
// Copies: what `copies` says of a pass or an OptimizerStep runs on streams of its own (copy_streams.h), and the
// instruction starts when what it waits for is done. An OptimizerStep with a stage is that stage's alone
// (StageCost::update_seconds), and waits for its reduction.
Simulation simulate(const Schedule& schedule, const StepCosts& costs, const StepMemory& memory,
                    Timeline timeline = Timeline::leave_out, const StepCopies& copies = {});

}  // namespace llmtrain
