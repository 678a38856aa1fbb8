// SPDX-License-Identifier: Apache-2.0
// Pinned memory of the host. While a copy that the host has not waited for writes a block, the host cannot touch it;
// while one reads it, the host cannot write it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emulated {

void* allocate_pinned(std::size_t bytes);
void release_pinned(void* memory);  // throws Fault unless it was allocated and is in use
bool is_pinned(const void* memory);

struct PinnedCounters {
  std::int64_t allocations = 0, growths = 0;
  std::int64_t allocated = 0, peak = 0, reserved = 0;  // bytes, in whole pages
};
PinnedCounters pinned_counters();

}  // namespace emulated
