// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/report/html/memory_columns.h"

#include <algorithm>

namespace llmtrain {

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
