// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/work.h"

#include <cstring>

#include "tests/emulator/device/fault.h"
#include "tests/emulator/device/memory/device_memory.h"
#include "tests/emulator/device/world.h"

namespace emulated {
namespace {

// What a stream's thread does with one piece of work.
struct Task {
  Stream* stream;
  std::uint64_t time;
  const std::string* name;
  std::vector<GuardZone> zones;  // of the device's blocks that the work was given
  std::function<void()> run;

  void operator()() const {
    DeviceErrors& errors = world().device(stream->device).errors;
    // After an error nothing runs any more, as on CUDA.
    if (!errors.has_error()) {
      try {
        run();
      } catch (const std::exception& error) {
        errors.report(error.what());
      }
      for (const GuardZone& zone : zones) {
        const std::string overrun = find_overrun(zone);
        if (!overrun.empty()) errors.report_overrun(*name + " writes " + overrun);
      }
    }
    stream->finished = time;
  }
};

void access_pinned(const Record& own, Stream* stream, const Clock& host) {
  World& w = world();
  const auto place = find_block(w.pinned_blocks, own.begin);
  if (place == w.pinned_blocks.end() || place->second.is_free)
    throw Fault(*own.name + " uses pinned memory that is not allocated");
  PinnedBlock& block = place->second;
  if (own.end > place->first + block.bytes) throw Fault(*own.name + " reaches beyond pinned memory");
  block.pending.push_back({stream->device, own.timeline, own.time, own.is_write, own.name});
  set_host_rights(place->first, block);
  const std::string race = block.accesses.add(own, stream->clock, host);
  if (!race.empty()) note_race(stream->device, race);
}

GuardZone access_device(const Record& own, Stream* stream, Device& owner) {
  const auto place = find_block(owner.blocks, own.begin);
  if (place == owner.blocks.end() || place->second.is_free)
    throw Fault(*own.name + " uses device memory that is not allocated");
  Block& block = place->second;
  if (own.end > place->first + block.requested)
    throw Fault(*own.name + " is given " + std::to_string(own.end - own.begin) + " bytes at byte " +
                std::to_string(own.begin - place->first) + " of " + std::to_string(block.requested) +
                " of device memory");
  const std::string race = block.accesses.add(own, stream->clock, owner.host);
  if (!race.empty()) note_race(stream->device, race);
  return {place->first, block.requested, block.bytes};
}

}  // namespace

void enqueue(Stream* stream, Work work) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  Device& device = w.device(stream->device);
  device.errors.raise();
  if (stream->capture != nullptr) {
    stream->capture->add(std::move(work));
    return;
  }
  ++device.counters.launches;
  stream->clock.join(device.host);
  const std::uint64_t time = stream->clock.advance(stream->id);
  Task task{stream, time, w.interned(work.name), {}, std::move(work.run)};
  for (const Access& access : work.accesses) {
    if (access.bytes == 0) continue;
    const auto* begin = static_cast<const char*>(access.begin);
    const Record own{begin, begin + access.bytes, stream->id, time, access.is_write, task.name};
    if (w.pinned.contains(begin)) access_pinned(own, stream, device.host);
    const int owner = device_of_memory(begin);
    if (owner >= 0) task.zones.push_back(access_device(own, stream, w.device(owner)));
  }
  push(stream, std::move(task));
}

void* reachable(const void* memory) {
  auto* const address = const_cast<char*>(static_cast<const char*>(memory));
  const World& w = world();
  if (w.protection.kind() != Protection::alias) return address;
  if (w.pinned.contains(memory)) return address + w.pinned.to_alias;
  for (const auto& device : w.devices)
    if (device->arena.contains(memory)) return address + device->arena.to_alias;
  return address;
}

void relocate(void* bytes, std::size_t size) {
  for (std::size_t i = 0; i + sizeof(void*) <= size; i += alignof(void*)) {
    void* word = nullptr;
    std::memcpy(&word, static_cast<char*>(bytes) + i, sizeof word);
    void* const there = reachable(word);
    std::memcpy(static_cast<char*>(bytes) + i, &there, sizeof there);
  }
}

}  // namespace emulated
