// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "parallel/plan/simulator/simulator.h"

namespace llmtrain {

// The memory of one rank over time, by category. Events may be reported ahead of their time and in any order; they
// count once the clock has passed them.
class MemoryLedger {
 public:
  // Instead of the instruction, of events that none of the rank's causes: a peak is then named after the running pass.
  static constexpr std::int32_t running_pass = -1;

  // `result` outlives the ledger, which writes peak, high water, final bytes and samples to it.
  MemoryLedger(const ScheduleShape& shape, const StepMemory& memory, std::int32_t rank, Timeline timeline,
               RankSimulation& result);

  // Reports an event of one of the rank's stages; `seconds` is not before the time of the last advance().
  void record(double seconds, MemoryEvent event, std::int32_t stage, std::int32_t instruction);
  // Counts all events before `seconds`.
  void advance(double seconds);
  // Counts the rest.
  void finish();

 private:
  // Places of bytes: a category of the device, or the host.
  static constexpr std::uint8_t host = memory_categories;
  struct Change {
    double bytes = 0;
    std::uint8_t place = 0;
    bool is_momentary = false;
    std::optional<MemoryEvent> beside;
    std::int32_t kept = none_kept;  // index into kept_, where what is given back is kept
  };
  static constexpr std::int32_t none_kept = -1;
  // How often a kept holding is held now, and at most.
  struct Kept {
    std::int32_t now = 0, most = 0;
  };
  // Where the changes with an event of a stage are.
  struct Row {
    std::uint32_t first = 0;
    std::uint16_t changes = 0;
    bool has_moments = false;
  };
  struct Event {
    double seconds = 0;
    std::uint32_t row = 0;  // by event and stage: the order of events of the same instant
    std::int32_t instruction = 0;
  };
  static bool is_later(const Event& a, const Event& b) {
    return a.seconds != b.seconds ? a.seconds > b.seconds : a.row > b.row;
  }

  std::uint32_t row_of(MemoryEvent event, std::size_t turn) const {
    return static_cast<std::uint32_t>(static_cast<std::size_t>(event) * turns_ + turn);
  }
  bool is_row_of(MemoryEvent event, std::uint32_t row) const { return row - row_of(event, 0) < turns_; }
  bool starts_pass(std::uint32_t row) const {
    return is_row_of(MemoryEvent::forward_starts, row) || is_row_of(MemoryEvent::backward_starts, row);
  }
  std::span<const Change> changes_of(const Event& event) const {
    return {changes_.data() + rows_[event.row].first, rows_[event.row].changes};
  }

  void list_changes(const StepMemory& memory, std::int32_t rank);
  void count_next();
  void add(std::size_t place, double bytes);
  void add_kept(const Change& change);
  void hold_for_a_moment(const Event& event);
  double begun_beside(const Event& event, const Change& change) const;
  void note_peak(const Event& event);
  MemoryBytes on_device() const;

  std::int32_t pipeline_;
  std::size_t turns_;  // stages of the rank
  Timeline timeline_;
  std::vector<Row> rows_;
  std::vector<Change> changes_;
  std::vector<Kept> kept_;
  std::vector<Event> ahead_;                                  // a heap, the earliest on top
  std::array<double, memory_categories + 1> now_{}, most_{};  // by place
  double total_ = 0;                                          // on the device
  std::int32_t pass_ = 0;                                     // instruction of the pass that started last
  RankSimulation& result_;
};

}  // namespace llmtrain
