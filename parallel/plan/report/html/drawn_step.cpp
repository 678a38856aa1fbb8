// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/html/drawn_step.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/page/axis.h"

namespace llmtrain {
namespace {

constexpr double cut_width = 36;  // of the band for an omitted part
constexpr double units_per_tick = 100;

std::string tick_label(double seconds, double step) {
  const bool milliseconds = step < 0.1;
  const double unit = milliseconds ? 1e-3 : 1;
  const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(step / unit) - 1e-9)), 0, 6);
  return fmt::format("{:.{}f} {}", seconds / unit, decimals, milliseconds ? "ms" : "s");
}

std::vector<std::int32_t> select_ranks(std::int32_t ranks, std::int32_t always) {
  std::vector<std::int32_t> selected;
  const auto most = static_cast<std::int32_t>(most_drawn_ranks);
  for (std::int64_t i = 0; i < std::min(ranks, most); ++i)
    selected.push_back(static_cast<std::int32_t>(ranks <= most ? i : i * (ranks - 1) / (most - 1)));
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

TimeAxis::TimeAxis(double seconds, double width, std::optional<TimeSpan> cut) : width_(width) {
  if (!cut) {
    pieces_ = {{.seconds = {0, seconds}, .left = 0, .right = width}};
    return;
  }
  // Both shown parts use the same scale, so that lengths left and right of the cut compare.
  const double shown = cut->start + seconds - cut->end;
  const double middle = (width - cut_width) * cut->start / shown;
  pieces_ = {{.seconds = {0, cut->start}, .left = 0, .right = middle},
             {.seconds = *cut, .left = middle, .right = middle + cut_width, .is_cut = true},
             {.seconds = {cut->end, seconds}, .left = middle + cut_width, .right = width}};
}

double TimeAxis::x(double seconds) const {
  auto piece = std::find_if(pieces_.begin(), pieces_.end(),
                            [seconds](const TimePiece& candidate) { return seconds <= candidate.seconds.end; });
  if (piece == pieces_.end()) return width_;
  const double length = piece->seconds.end - piece->seconds.start;
  if (length <= 0) return piece->left;
  return piece->left + (piece->right - piece->left) * (seconds - piece->seconds.start) / length;
}

std::vector<TimeTick> TimeAxis::ticks() const {
  std::vector<TimeTick> result;
  for (const TimePiece& piece : pieces_) {
    const double length = piece.seconds.end - piece.seconds.start;
    const double units = piece.right - piece.left;
    if (piece.is_cut || length <= 0 || units <= 0) continue;
    const double step = round_step(length / units * units_per_tick);
    for (double tick = std::ceil(piece.seconds.start / step); tick * step <= piece.seconds.end; ++tick)
      // A label at the right edge would be clipped.
      if (x(tick * step) <= width_ - 30) result.push_back({x(tick * step), tick_label(tick * step, step)});
  }
  return result;
}

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

std::vector<MemoryColumn> memory_columns(const std::vector<MemorySample>& samples, const TimeAxis& axis,
                                         std::size_t count) {
  std::vector<MemoryColumn> columns;
  if (samples.empty()) return columns;
  const double width = axis.width() / static_cast<double>(count);
  MemoryBytes held = samples.front().bytes;
  std::size_t next = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double right = width * static_cast<double>(i + 1);
    const bool is_last = i + 1 == count;
    // The previous column's last value counts only if it still holds when this column begins.
    const bool changes_at_start =
        next < samples.size() && axis.x(samples[next].seconds) <= width * static_cast<double>(i);
    MemoryBytes most = changes_at_start ? samples[next].bytes : held;
    for (; next < samples.size() && (is_last || axis.x(samples[next].seconds) < right); ++next) {
      held = samples[next].bytes;
      if (held.total() > most.total()) most = held;
    }
    if (columns.empty() || columns.back().bytes.bytes != most.bytes)
      columns.push_back({.x = width * static_cast<double>(i), .bytes = most});
  }
  return columns;
}

}  // namespace llmtrain
