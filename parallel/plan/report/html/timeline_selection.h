// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "parallel/plan/report/html/time_axis.h"
#include "parallel/plan/simulator/simulator.h"

namespace llmtrain {

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

}  // namespace llmtrain
