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

// What a page shows of a timeline that may be too long for it.
struct TimelineSelection {
  std::vector<std::int32_t> ranks;     // pipeline ranks, ascending
  std::optional<TimeSpan> cut;         // left out of the middle of the step
  std::vector<TimelineEntry> entries;  // by rank and start; those that lie in the cut alone are not there
  std::size_t entries_of_ranks = 0;    // with those left out
};

// All ranks up to most_drawn_ranks, else evenly spread ones with the first, the last and `always` among them; and of
// their entries, where there are more than most_drawn_entries, as many from the start of the step as from its end.
TimelineSelection select_timeline(const Simulation& simulation, std::int32_t always);

}  // namespace llmtrain
