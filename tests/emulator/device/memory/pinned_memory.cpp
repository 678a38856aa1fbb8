// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/memory/pinned_memory.h"

#include <algorithm>
#include <utility>

#include "tests/emulator/device/fault.h"
#include "tests/emulator/device/world.h"

namespace emulated {
namespace {

constexpr std::size_t page = 4096;

bool is_in_use(const PinnedBlock& block) {
  return std::any_of(block.pending.begin(), block.pending.end(),
                     [](const Pending& p) { return world().streams[p.timeline]->finished < p.time; });
}

// A freed block whose copies have run. Its next owner is ordered after them.
char* take_cached(std::size_t size) {
  for (auto& [begin, block] : world().pinned_blocks) {
    if (!block.is_free || block.bytes != size || is_in_use(block)) continue;
    block.pending.clear();
    block.accesses.clear();
    return const_cast<char*>(begin);
  }
  return nullptr;
}

char* take_new(std::size_t size) {
  World& w = world();
  if (!w.pinned.contains(w.pinned_end + size)) throw OutOfMemory("there are no addresses left for pinned memory");
  char* const begin = std::exchange(w.pinned_end, w.pinned_end + size);
  w.pinned_blocks[begin].bytes = size;
  ++w.pinned_counters.growths;
  w.pinned_counters.reserved += static_cast<std::int64_t>(size);
  return begin;
}

}  // namespace

void set_host_rights(const char* begin, const PinnedBlock& block) {
  using HostMay = MemoryProtection::HostMay;
  const bool is_written =
      std::any_of(block.pending.begin(), block.pending.end(), [](const Pending& p) { return p.is_write; });
  const HostMay rights = is_written ? HostMay::nothing : block.pending.empty() ? HostMay::all : HostMay::read;
  world().protection.set_host_rights(begin, block.bytes, rights);
}

void learn(int device, const Clock& clock) {
  Clock& host = world().device(device).host;
  host.join(clock);
  for (auto& [begin, block] : world().pinned_blocks) {
    const auto is_known = [&](const Pending& p) { return p.device == device && p.time <= host.at(p.timeline); };
    if (std::erase_if(block.pending, is_known) > 0) set_host_rights(begin, block);
  }
}

void* allocate_pinned(std::size_t bytes) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  // Whole pages, because protection knows no smaller piece.
  const std::size_t size = std::max(page, (bytes + page - 1) / page * page);
  char* begin = take_cached(size);
  if (begin == nullptr) begin = take_new(size);
  PinnedBlock& block = w.pinned_blocks.at(begin);
  block.is_free = false;
  set_host_rights(begin, block);
  PinnedCounters& c = w.pinned_counters;
  ++c.allocations;
  c.allocated += static_cast<std::int64_t>(size);
  c.peak = std::max(c.peak, c.allocated);
  return begin;
}

void release_pinned(void* memory) {
  if (memory == nullptr) return;
  World& w = world();
  const std::lock_guard lock(w.mutex);
  const auto place = w.pinned_blocks.find(static_cast<const char*>(memory));
  if (place == w.pinned_blocks.end()) throw Fault("pinned memory is freed that was not allocated");
  if (place->second.is_free) throw Fault("pinned memory is freed twice");
  place->second.is_free = true;
  w.pinned_counters.allocated -= static_cast<std::int64_t>(place->second.bytes);
}

bool is_pinned(const void* memory) { return world().pinned.contains(memory); }

PinnedCounters pinned_counters() {
  const std::lock_guard lock(world().mutex);
  return world().pinned_counters;
}

}  // namespace emulated
