// SPDX-License-Identifier: Apache-2.0
#include "core/base/units.h"

#include <array>
#include <cmath>
#include <cstddef>

#include <spdlog/fmt/fmt.h>

namespace llmtrain {

std::string format_bytes(std::int64_t bytes) {
  constexpr std::array names{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // Values from 1023.5 on would be printed as 1024 of the smaller unit.
  for (; std::abs(value) >= (unit == 0 ? 1024 : 1023.5) && unit + 1 < names.size(); ++unit) value /= 1024;
  if (unit == 0) return fmt::format("{} B", bytes);
  // Three significant digits.
  const int decimals = std::abs(value) >= 100 ? 0 : std::abs(value) >= 10 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, names[unit]);
}

std::string format_count(double count) {
  constexpr std::array names{"", "k", "M", "B", "T"};
  std::size_t unit = 0;
  // Values that would round up to 1000 are printed as 1 of the next unit.
  for (; std::abs(count) >= (unit == 0 ? 999.5 : 999.95) && unit + 1 < names.size(); ++unit) count /= 1000;
  return unit == 0 ? fmt::format("{:.0f}", count) : fmt::format("{:.1f}{}", count, names[unit]);
}

std::string format_duration(double seconds) {
  // An exact 0 is of no unit in particular.
  if (seconds > 0 && seconds < 0.0009995) return fmt::format("{:.0f}µs", seconds * 1e6);
  if (seconds < 0.9995) return fmt::format("{:.0f}ms", seconds * 1000);
  if (seconds < 59.95) return fmt::format("{:.1f}s", seconds);
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}m {:02}s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{}h {:02}m", whole / 3600, whole / 60 % 60);
  return fmt::format("{}d {}h", whole / 86400, whole / 3600 % 24);
}

std::string format_number_of(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace llmtrain
