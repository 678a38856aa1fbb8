// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/html/timeline_selection.h"

#include <algorithm>
#include <map>

namespace llmtrain {
namespace {

std::vector<std::int32_t> select_ranks(std::int32_t ranks, std::int32_t always) {
  std::vector<std::int32_t> selected;
  const auto most = static_cast<std::int32_t>(most_drawn_ranks);
  if (ranks <= most) {
    for (std::int32_t rank = 0; rank < ranks; ++rank) selected.push_back(rank);
    return selected;
  }
  for (std::int32_t i = 0; i < most; ++i)
    selected.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(i) * (ranks - 1) / (most - 1)));
  const auto place = std::lower_bound(selected.begin(), selected.end(), always);
  if (place != selected.end() && *place == always) return selected;
  // `always` is neither the first nor the last rank, so it can replace a neighbour in the middle.
  *(place == selected.end() - 1 ? place - 1 : place) = always;
  return selected;
}

// The middle of the step that is omitted for every rank if each shows `count` entries from either end.
std::optional<TimeSpan> find_cut(const std::map<std::int32_t, std::vector<TimelineEntry>>& by_rank, std::size_t count) {
  std::optional<TimeSpan> cut;
  for (const auto& [rank, entries] : by_rank) {
    if (entries.size() <= 2 * count) continue;
    const double start = entries[count].start_seconds;
    const double end = entries[entries.size() - count].start_seconds;
    // All ranks share one time axis, so the cut must cover what any of them omits.
    cut = cut ? TimeSpan{std::min(cut->start, start), std::max(cut->end, end)} : TimeSpan{start, end};
  }
  return cut;
}

}  // namespace

TimelineSelection select_timeline(const Simulation& simulation, std::int32_t always) {
  TimelineSelection selection;
  selection.ranks = select_ranks(static_cast<std::int32_t>(simulation.ranks.size()), always);
  std::map<std::int32_t, std::vector<TimelineEntry>> by_rank;
  for (const TimelineEntry& entry : simulation.timeline)
    if (std::binary_search(selection.ranks.begin(), selection.ranks.end(), entry.rank))
      by_rank[entry.rank].push_back(entry);
  selection.cut = find_cut(by_rank, most_drawn_entries / selection.ranks.size() / 2);
  for (const auto& [rank, entries] : by_rank) {
    selection.entries_of_ranks += entries.size();
    for (const TimelineEntry& entry : entries)
      if (!selection.cut || entry.start_seconds < selection.cut->start || entry.end_seconds > selection.cut->end)
        selection.entries.push_back(entry);
  }
  return selection;
}

}  // namespace llmtrain
