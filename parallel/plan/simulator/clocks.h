// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "parallel/plan/simulator/data_stream.h"
#include "parallel/plan/simulator/memory_ledger.h"

namespace llmtrain {

// The progress of a rank through its schedule. Times are in seconds.
struct RankClock {
  RankClock(const ScheduleShape& shape, const StepMemory& memory, std::int32_t rank_in, Timeline timeline)
      : rank(rank_in), ledger(shape, memory, rank_in, timeline, result) {}
  // The ledger refers to `result`.
  RankClock(const RankClock&) = delete;

  std::int32_t rank;
  std::size_t next = 0;         // instruction
  double clock = 0;             // the compute stream is busy until then
  double input_ready = 0;       // end of the transfers that the next pass waits for
  double longest_transfer = 0;  // duration of the longest of them
  double reduced = 0;           // end of the last reduction
  std::int32_t reducing = -1;   // its stage while the whole gradients are held, else −1
  double send_free = 0;         // the outgoing link is busy until then
  double receive_free = 0;      // the incoming link, likewise
  double* awaited = nullptr;    // the arrival whose time the rank waits for, if its sender has not sent yet
  DataStream data;
  RankSimulation result;
  MemoryLedger ledger;
};

// The progress of a stage.
struct StageClock {
  double gathered = 0;           // its weights are there, or the first bucket of the updated ones
  double updated = 0;            // all updated weights are there
  Interval reducing;             // the part of its next reduction that ran beside the backward
  double left_to_reduce = 0;     // the rest of it
  double reduced = 0;            // end of the last reduction of its gradients
  std::int32_t unreduced = 0;    // backward passes since the last reduction
  bool holds_gradients = false;  // whole gradients that are not reduced yet
  bool accumulates = false;      // gradients that are not FP8 yet
  bool has_reduced = false;      // in this step
  bool holds_partial = false;    // gradients of a later reduction, which are added to those of the first
};

}  // namespace llmtrain
