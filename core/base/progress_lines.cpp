// SPDX-License-Identifier: Apache-2.0
#include "core/base/progress_lines.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>

#include "core/base/elapsed_time.h"
#include "core/base/log.h"
#include "core/base/units.h"

namespace llmtrain {

std::optional<std::string> ProgressLines::line_at(Clock::time_point now, double share, std::int64_t bytes) {
  if (!before_) before_ = {share, bytes};
  if (now - last_ < interval_) return std::nullopt;
  last_ = now;
  const double seconds = seconds_between(start_, now), done = share - before_->share;
  std::string line = fmt::format("{}: {:.0f} %", what_, 100 * share);
  if (bytes > before_->bytes)
    line += fmt::format(", {}/s", format_bytes(std::llround(static_cast<double>(bytes - before_->bytes) / seconds)));
  if (done > 0 && share < 1) line += fmt::format(", about {} left", format_duration(seconds * (1 - share) / done));
  return line;
}

void ProgressLines::show(double share, std::int64_t bytes) {
  if (const auto line = line_at(Clock::now(), share, bytes)) log().info(*line);
}

}  // namespace llmtrain
