// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "parallel/plan/simulator/copy_streams.h"
#include "parallel/plan/simulator/data_stream.h"
#include "parallel/plan/simulator/memory_ledger.h"
#include "parallel/plan/simulator/outgoing_link.h"
#include "parallel/plan/simulator/step_costs.h"

namespace llmtrain {

// When a stage's input has arrived or, with blocking transfers, when its sender has begun; infinite before the send.
struct Arrival {
  double time = std::numeric_limits<double>::infinity();
  double seconds = 0;  // that the transfer took
};

// The progress of a rank through its schedule. Times are in seconds.
struct RankClock {
  RankClock(const ScheduleShape& shape, const StepMemory& memory, std::int32_t rank_in, Timeline timeline,
            double contention_of_copies)
      : rank(rank_in), copies(contention_of_copies), ledger(shape, memory, rank_in, timeline, result) {}
  // The ledger refers to `result`.
  RankClock(const RankClock&) = delete;

  // Reports what the rank's next instruction does to the memory of one of its stages.
  void note(double seconds, MemoryEvent event, std::int32_t stage) {
    ledger.record(seconds, event, stage, static_cast<std::int32_t>(next));
  }
  // What backwards of the stage have summed in the whole step becomes what leaves or is updated from.
  void cast_step_sums(std::int32_t stage) {
    note(clock, MemoryEvent::step_sums_are_cast, stage);
    note(clock, MemoryEvent::step_sums_end, stage);
  }
  // The sender's instruction begins a transfer.
  void note_arrival(double seconds, bool is_activation, std::int32_t stage) {
    const MemoryEvent arrives = is_activation ? MemoryEvent::activation_arrives : MemoryEvent::gradient_arrives;
    ledger.record(seconds, arrives, stage, MemoryLedger::running_pass);
  }
  // The start of the next instruction, not before `earliest`: once what it needs has come from the host.
  double after_copies(const StepCopies& all, double earliest) {
    if (all.ranks.empty()) return earliest;
    const double start = copies.begin(all.ranks[static_cast<std::size_t>(rank)][next], clock, earliest);
    result.exposed_copy_seconds += start - earliest;
    return start;
  }
  // The rank comes to EvictGradients of a stage, whose gradients are final at `earliest`. Those that left before have
  // to be on the host then, and give their memory back.
  void evict(std::int32_t stage, double seconds, double earliest) {
    const double ready = std::max(clock, earliest);
    result.exposed_data_seconds += ready - clock;
    clock = release_evicted({{}, {{CopyLane::to_host, seconds}}, true}, ready);
    evicting = stage;
  }
  // The start of an update of all stages, not before `earliest`.
  double after_evictions(double earliest) {
    return evicting < 0 ? earliest : release_evicted({{}, {}, true}, earliest);
  }
  void count_pass(const PassCost& cost, const Interval& pass) {
    const double slowed = pass.end - pass.start - cost.seconds;
    result.busy_seconds += pass.end - pass.start;
    result.communication_seconds += cost.communication_seconds;
    result.recompute_seconds += cost.recompute_seconds;
    result.slowed_seconds += slowed;
    result.exposed_data_seconds += slowed;
  }
  // After the last instruction.
  void finish() {
    result.end_seconds = std::max(clock, data.free_at());
    // Gathers of updated weights that outlast the optimizer step have nothing left to overlap.
    result.exposed_data_seconds += result.end_seconds - clock;
    finish_copies();
    // Events after the last instruction, such as the end of its sends.
    ledger.finish();
  }
  // What moves after the last instruction lengthens the step.
  void finish_copies() {
    const double longer = std::max(0.0, copies.finish() - result.end_seconds);
    result.exposed_copy_seconds += longer;
    result.end_seconds += longer;
  }

  double release_evicted(const InstructionCopies& issued, double earliest) {
    const double start = copies.begin(issued, clock, earliest);
    result.exposed_copy_seconds += start - earliest;
    if (evicting >= 0) note(start, MemoryEvent::gradients_have_left, std::exchange(evicting, -1));
    return start;
  }

  std::int32_t rank;
  std::size_t next = 0;         // instruction
  double clock = 0;             // the compute stream is busy until then
  double input_ready = 0;       // end of the transfers that the next pass waits for
  double longest_transfer = 0;  // duration of the longest of them
  std::int32_t reducing = -1;   // its stage while the whole gradients are held, else −1
  std::int32_t evicting = -1;   // the stage whose gradients are on their way to the host, else −1
  double receive_free = 0;      // the incoming link is busy until then
  Arrival* awaited = nullptr;   // for whose time the rank waits, if its sender has not sent yet
  DataStream data;
  DataStream::Ticket reduction = DataStream::none;  // the last one
  OutgoingLink outgoing;
  CopyStreams copies;  // to and from the host
  RankSimulation result;
  MemoryLedger ledger;
};

// The progress of a stage.
struct StageClock {
  DataStream::Ticket gather = DataStream::none;     // of its weights, the last one
  DataStream::Ticket reduction = DataStream::none;  // of its gradients, the last one
  // What ran beside the backward of the stage's next reduction, and what is left of it.
  DataStream::Ticket begun_reduction = DataStream::none;
  DataCollective left_to_reduce;
  std::int32_t unreduced = 0;        // backward passes since the last reduction
  bool is_gathered = false;          // weights that no pass has used yet
  bool has_gradients = false;        // whole ones that are not reduced yet
  bool has_early_gradients = false;  // these, begun by another stage or the head, and no backward has added to them
  bool has_step_gradients = false;   // any of this step
  bool has_reduced = false;          // in this step
  bool reduces_again = false;        // a later reduction, whose gradients are added to those of the first
};

}  // namespace llmtrain
