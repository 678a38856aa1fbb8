// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/plan/simulator/simulator.h"

namespace llmtrain {

// Events that change a rank's memory, releases before acquisitions: this is the order of events of the same instant.
enum class MemoryChange : std::uint8_t {
  forward_ends,
  backward_ends,
  tensor_is_sent,
  weights_are_freed,
  gradients_are_reduced,
  partial_gradients_end,
  optimizer_ends,
  // What is cast is released after it.
  gradients_are_cast,
  accumulation_ends,
  gradients_are_packed,  // for a moment, before the next pass starts
  forward_starts,
  backward_starts,
  tensor_arrives,
  weights_are_gathered,
  gradients_begin,
  accumulation_begins,
  partial_gradients_begin,
  optimizer_starts,
};

// The memory of one rank over time, by category. Changes may be reported ahead of their time and in any order; they
// count once the clock has passed them.
class MemoryLedger {
 public:
  // All arguments outlive the ledger, which writes peak, high water, final bytes and samples to `result`.
  MemoryLedger(const ScheduleShape& shape, const StepMemory& memory, std::int32_t rank, Timeline timeline,
               RankSimulation& result);

  // Reports a change; `seconds` is not before the time of the last advance().
  void record(double seconds, MemoryChange change, std::int32_t stage, std::int32_t instruction);
  // Counts all changes before `seconds`.
  void advance(double seconds);
  // Counts the rest.
  void finish();

 private:
  struct Event {
    double seconds = 0;
    std::int32_t stage = 0;
    std::int32_t instruction = 0;
    MemoryChange change{};
  };
  static bool is_later(const Event& a, const Event& b) {
    return a.seconds != b.seconds ? a.seconds > b.seconds : a.change > b.change;
  }

  void count_next();
  void apply(const Event& event);
  void add(MemoryCategory category, double bytes);
  void add_on_host(double bytes);
  void keep_activations(const StageMemory& stage, int micro_batches);
  void hold_for_a_moment(const Event& event, MemoryCategory category, double bytes);
  void start_pass(const Event& event);
  void note_head(const Event& event);
  void note_peak(const Event& event);

  const ScheduleShape& shape_;
  const StepMemory& memory_;
  Timeline timeline_;
  std::vector<Event> ahead_;  // a heap, the earliest on top
  MemoryBytes now_;
  double total_ = 0;
  double on_host_ = 0;
  double wide_ = 0;                // gradients that wait for the optimizer outside of FP8
  std::vector<bool> is_gathered_;  // by stage: whether no pass has used the weights yet
  // By stage: whether the head has begun its gradients and no backward has added to them, and when the last one
  // started.
  std::vector<bool> is_head_alone_;
  std::vector<double> backward_starts_;
  std::int32_t running_ = 0;  // instruction of the pass that started last
  RankSimulation& result_;
};

}  // namespace llmtrain
