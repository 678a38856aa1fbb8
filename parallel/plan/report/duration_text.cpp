// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/duration_text.h"

#include <spdlog/fmt/fmt.h>

#include "core/base/units.h"

namespace llmtrain {

std::string duration_text(double seconds) {
  // Each bound is the value from which rounding would print one digit more than three; NaN goes to format_duration().
  if (!(seconds < 9.995)) return format_duration(seconds);
  if (seconds >= 0.9995) return fmt::format("{:.2f}s", seconds);
  if (seconds < 0.9995e-3) return fmt::format("{:.0f}µs", seconds * 1e6);
  const double milliseconds = seconds * 1e3;
  const int decimals = milliseconds < 9.995 ? 2 : milliseconds < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f}ms", milliseconds, decimals);
}

}  // namespace llmtrain
