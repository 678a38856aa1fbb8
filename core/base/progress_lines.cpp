// SPDX-License-Identifier: Apache-2.0
#include "core/base/progress_lines.h"

#include <spdlog/fmt/fmt.h>

#include "core/base/log.h"
#include "core/base/units.h"

namespace llmtrain {

std::optional<std::string> ProgressLines::line_at(Clock::time_point now, double share) {
  constexpr std::chrono::seconds interval{10};
  if (now - last_ < interval) return std::nullopt;
  last_ = now;
  std::string line = fmt::format("{}: {:.0f} %", what_, 100 * share);
  const double seconds = std::chrono::duration<double>(now - start_).count();
  if (share > 0 && share < 1) line += fmt::format(", about {} left", format_duration(seconds * (1 - share) / share));
  return line;
}

void ProgressLines::show(double share) {
  if (const auto line = line_at(Clock::now(), share)) log().info(*line);
}

}  // namespace llmtrain
