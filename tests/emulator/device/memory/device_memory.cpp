// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/memory/device_memory.h"

#include <algorithm>
#include <cstring>

#include "tests/emulator/device/fault.h"
#include "tests/emulator/device/memory/graph_pool.h"
#include "tests/emulator/device/settings.h"
#include "tests/emulator/device/work.h"
#include "tests/emulator/device/world.h"

namespace emulated {
namespace {

constexpr std::size_t granule = 512;

GuardZone zone_of(const char* begin, const Block& block) { return {begin, block.requested, block.bytes}; }

bool fits(const Device& d, std::size_t size) {
  return d.counters.reserved + static_cast<std::int64_t>(size) <= static_cast<std::int64_t>(settings().memory);
}

// A cached block that nothing uses any more.
char* take_cached(Device& d, Stream* stream, std::size_t bytes) {
  auto& blocks = d.free_blocks[{stream, bytes}];
  const std::size_t kept = settings().quarantine;
  if (blocks.size() <= kept) return nullptr;
  // The one that was freed last is in the processor's cache; with a quarantine, the one that was freed first.
  for (std::size_t i = 0; i + kept < blocks.size(); ++i) {
    const std::size_t place = kept > 0 ? i : blocks.size() - 1 - i;
    Block& block = d.blocks.at(blocks[place]);
    if (!std::all_of(block.open.begin(), block.open.end(), has_passed)) continue;
    for (const MarkPointer& mark : block.open) learn(stream->device, mark->clock);
    block.open.clear();
    char* const begin = const_cast<char*>(blocks[place]);
    blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(place));
    return begin;
  }
  return nullptr;
}

// Returns cached blocks to the device. The caller has waited for it, as cudaFree() does.
void give_to_device(Device& d) {
  for (auto& [key, blocks] : d.free_blocks) {
    for (const char* begin : blocks) {
      const auto place = d.blocks.find(begin);
      const std::size_t bytes = place->second.bytes;
      d.counters.reserved -= static_cast<std::int64_t>(bytes);
      d.unused.give(const_cast<char*>(begin) - GuardZone::bytes, bytes + 2 * GuardZone::bytes);
      d.blocks.erase(place);
    }
    blocks.clear();
  }
}

char* take_new(Device& d, std::size_t bytes) {
  char* const piece = d.unused.take(bytes + 2 * GuardZone::bytes);
  if (piece == nullptr) throw OutOfMemory("the emulated device has no addresses left");
  char* const begin = piece + GuardZone::bytes;
  Block block;
  block.bytes = block.requested = bytes;
  world().protection.admit_this_thread();
  fill(zone_of(begin, block));
  world().protection.dismiss_this_thread();
  d.blocks.emplace(begin, std::move(block));
  d.counters.reserved += static_cast<std::int64_t>(bytes);
  return begin;
}

std::string out_of_memory(int device, std::size_t bytes, const Counters& c) {
  return "CUDA out of memory. Tried to allocate " + std::to_string(bytes) + " bytes; GPU " + std::to_string(device) +
         " has " + std::to_string(settings().memory) + ", of which " + std::to_string(c.allocated) + " are allocated";
}

// The work that fills it is first on its stream to use it, so that another stream's use without an event is a race.
void poison_contents(Stream* stream, char* begin, const Block& block) {
  const Access whole{begin, block.requested, true};
  const auto fill = [begin, zone = zone_of(begin, block)] {
    std::memset(reachable(begin), 0xff, zone.requested);
    fill_unused(zone);
  };
  enqueue(stream, {.name = "a new allocation", .accesses = {whole}, .run = fill, .is_counted = false});
}

// For a graph that is captured, whose memory grows as far as the device has some: cached memory could not be given back
// to it meanwhile.
char* take_for(GraphPool& pool, Device& d, Stream* stream, std::size_t size) {
  char* begin = take_from(pool, stream, size);
  if (begin == nullptr) {
    ++d.counters.growths;
    if (!fits(d, size)) throw Fault("memory runs out while a graph is captured");
    begin = take_new(d, size);
    d.blocks.at(begin).pool = stream->capture->pool();
  }
  count_taken(pool, size);
  return begin;
}

char* take(Device& d, int device, Stream* stream, std::size_t bytes, std::size_t size,
           std::unique_lock<std::recursive_mutex>& lock) {
  char* begin = take_cached(d, stream, size);
  if (begin == nullptr) {
    ++d.counters.growths;
    if (!fits(d, size)) {
      // Without the lock: a collective on a stream may wait for another rank's host thread.
      lock.unlock();
      synchronize_device(device, "the allocator gives cached memory back");
      lock.lock();
      give_to_device(d);
    }
    if (!fits(d, size)) throw OutOfMemory(out_of_memory(device, bytes, d.counters));
    begin = take_new(d, size);
  }
  d.counters.allocated += static_cast<std::int64_t>(size);
  return begin;
}

}  // namespace

void* allocate(int device, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  std::unique_lock lock(world().mutex);
  Device& d = world().device(device);
  d.errors.raise();
  Stream* const stream = current_stream(device);
  const std::size_t size = (bytes + granule - 1) / granule * granule;
  char* const begin = stream->capture != nullptr ? take_for(*stream->capture->pool(), d, stream, size)
                                                 : take(d, device, stream, bytes, size, lock);
  Block& block = d.blocks.at(begin);
  block.requested = bytes;
  block.number = ++d.counters.allocations;
  block.is_free = false;
  block.stream = stream;
  d.counters.peak = std::max(d.counters.peak, d.counters.allocated);
  d.counters.recent_peak = std::max(d.counters.recent_peak, d.counters.allocated);
  poison_contents(stream, begin, block);
  return begin;
}

void release(void* memory) {
  if (memory == nullptr) return;
  const std::lock_guard lock(world().mutex);
  const int device = device_of_memory(memory);
  if (device < 0) throw Fault("memory is freed that is not the device's");
  Device& d = world().device(device);
  const auto place = d.blocks.find(static_cast<const char*>(memory));
  if (place == d.blocks.end()) throw Fault("device memory is freed that was not allocated");
  Block& block = place->second;
  if (block.is_free) throw Fault("device memory is freed twice");
  if (block.pool != nullptr && block.pool->graphs > 0) return give_back(*block.pool, place->first, block);
  if (block.pool != nullptr) block.users.insert(block.users.end(), block.pool->users.begin(), block.pool->users.end());
  block.pool.reset();
  d.counters.allocated -= static_cast<std::int64_t>(block.bytes);
  block.is_free = true;
  for (Stream* user : block.users) block.open.push_back(record(user));
  block.users.clear();
  d.free_blocks[{block.stream, block.bytes}].push_back(place->first);
}

void empty_cache(int device) {
  synchronize_device(device, "the allocator gives cached memory back");
  const std::lock_guard lock(world().mutex);
  give_to_device(world().device(device));
}

std::size_t bytes_of(const void* memory) {
  const std::lock_guard lock(world().mutex);
  const int device = device_of_memory(memory);
  if (device < 0) return 0;
  const auto& blocks = world().device(device).blocks;
  const auto place = blocks.find(static_cast<const char*>(memory));
  return place == blocks.end() ? 0 : place->second.requested;
}

void record_use(const void* memory, Stream* stream) {
  const std::lock_guard lock(world().mutex);
  const int device = device_of_memory(memory);
  if (device < 0) return;
  auto& blocks = world().device(device).blocks;
  const auto place = find_block(blocks, memory);
  if (place != blocks.end() && place->second.stream != stream) place->second.users.push_back(stream);
}

int device_of_memory(const void* memory) {
  const World& w = world();
  for (std::size_t d = 0; d < w.devices.size(); ++d)
    if (w.devices[d]->arena.contains(memory)) return static_cast<int>(d);
  return -1;
}

void check_guard_zones(int device) {
  Device& d = world().device(device);
  world().protection.admit_this_thread();
  for (const auto& [begin, block] : d.blocks) {
    // What lies behind the bytes that were asked for may not be filled yet.
    const std::string overrun = find_overrun({begin, block.bytes, block.bytes});
    if (overrun.empty()) continue;
    const std::string* const name = block.accesses.last_name();
    d.errors.report_overrun("something has written " + overrun + ", which " + (name != nullptr ? *name : "nothing") +
                            " was the last to use");
  }
  world().protection.dismiss_this_thread();
}

}  // namespace emulated
