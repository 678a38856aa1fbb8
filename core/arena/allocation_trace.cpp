// SPDX-License-Identifier: Apache-2.0
#include "core/arena/allocation_trace.h"

#include <algorithm>

namespace llmtrain {

AllocationTrace joined(const AllocationTrace& first, AllocationTrace second) {
  if (first.sections.size() != second.sections.size()) return second;
  for (std::size_t section = 0; section < first.sections.size(); ++section) {
    const auto& others = first.sections[section];
    auto& own = second.sections[section];
    if (others.size() != own.size()) continue;
    for (std::size_t i = 0; i < own.size(); ++i) {
      own[i].bytes = std::max(own[i].bytes, others[i].bytes);
      if (!others[i].freed) own[i].freed.reset();
      if (own[i].freed) own[i].freed = std::max(own[i].freed, others[i].freed);
    }
  }
  return second;
}

std::vector<Buffer> buffers_of(const AllocationTrace& trace) {
  std::vector<std::int64_t> begins;
  std::int64_t count = 0;
  for (const auto& section : trace.sections) {
    begins.push_back(count);
    count += static_cast<std::int64_t>(section.size());
  }
  std::vector<Buffer> buffers;
  for (const auto& section : trace.sections) {
    for (const AllocationTrace::Allocation& each : section) {
      const auto own = static_cast<std::int64_t>(buffers.size());
      if (!each.freed) {
        buffers.push_back({0, own, own});
        continue;
      }
      // A section that was joined from another step may be shorter than when this one was freed.
      const std::size_t before = std::min(each.freed->allocations, trace.sections[each.freed->section].size());
      const std::int64_t freed = begins[each.freed->section] + static_cast<std::int64_t>(before);
      buffers.push_back({each.bytes, own, std::max(own, freed - 1)});
    }
  }
  return buffers;
}

}  // namespace llmtrain
