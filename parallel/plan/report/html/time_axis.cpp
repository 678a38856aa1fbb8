// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/html/time_axis.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

namespace llmtrain {
namespace {

constexpr double cut_width = 36;  // of the band for an omitted part
constexpr double units_per_tick = 100;

// 1, 2 or 5 times a power of ten, not less than `least`.
double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least) return factor * power;
  return 10 * power;
}

std::string tick_label(double seconds, double step) {
  const bool milliseconds = step < 0.1;
  const double unit = milliseconds ? 1e-3 : 1;
  const int decimals = std::clamp(static_cast<int>(std::ceil(-std::log10(step / unit) - 1e-9)), 0, 6);
  return fmt::format("{:.{}f} {}", seconds / unit, decimals, milliseconds ? "ms" : "s");
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

}  // namespace llmtrain
