// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parallel/plan/simulator/simulator.h"

namespace llmtrain {

// What a page draws of a step, and where: the axis of time, the part of the timeline that is shown, memory in columns.

constexpr double plot_width = 1100;
constexpr double gutter = 72;  // units left of the axis, for the names of ranks

struct TimeSpan {
  double start = 0;
  double end = 0;
};

// A time span and where it is drawn.
struct TimePiece {
  TimeSpan seconds;
  double left = 0;
  double right = 0;
  bool is_cut = false;  // compressed to a narrow band without content
};

struct TimeTick {
  double x = 0;
  std::string label;
};

// Maps a step's seconds to 0 … width. An omitted middle part takes a band of fixed width.
class TimeAxis {
 public:
  // `seconds` must be positive and `cut` inside it.
  TimeAxis(double seconds, double width, std::optional<TimeSpan> cut);

  double x(double seconds) const;
  const std::vector<TimePiece>& pieces() const { return pieces_; }
  double width() const { return width_; }
  // At round times, about 80 to 200 units apart.
  std::vector<TimeTick> ticks() const;

 private:
  double width_;
  std::vector<TimePiece> pieces_;
};

constexpr std::size_t most_drawn_ranks = 16;
constexpr std::size_t most_drawn_entries = 16000;

// The part of a timeline that a page shows, which may be too long for it as a whole.
struct TimelineSelection {
  std::vector<std::int32_t> ranks;     // pipeline ranks, ascending
  std::optional<TimeSpan> cut;         // omitted from the middle of the step
  std::vector<TimelineEntry> entries;  // by rank and start, without those entirely inside the cut
  std::size_t entries_of_ranks = 0;    // including the omitted ones
};

// Selects all ranks if there are at most most_drawn_ranks, else evenly spread ones including the first, the last and
// `always`. If these have more than most_drawn_entries entries, selects as many from the start of the step as from its
// end.
TimelineSelection select_timeline(const Simulation& simulation, std::int32_t always);

struct MemoryColumn {
  double x = 0;  // left edge; the column extends to the next one
  MemoryBytes bytes;
};

// Memory over time in at most `count` columns of equal width: each shows its moment of highest total, so that no peak
// is lost. Columns equal to their predecessor are left out. Empty if nothing was recorded.
std::vector<MemoryColumn> memory_columns(const std::vector<MemorySample>& samples, const TimeAxis& axis,
                                         std::size_t count);

}  // namespace llmtrain
