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

struct Bytes {
  const char* begin;
  const char* end;
};

Bytes bytes_of(const Access& access) {
  const auto* const begin = static_cast<const char*>(access.begin);
  return {begin, begin + access.bytes};
}

void check_pinned(const Bytes& bytes, const std::string& name) {
  World& w = world();
  const auto place = find_block(w.pinned_blocks, bytes.begin);
  if (place == w.pinned_blocks.end() || place->second.is_free)
    throw Fault(name + " uses pinned memory that is not allocated");
  if (bytes.end > place->first + place->second.bytes) throw Fault(name + " reaches beyond pinned memory");
}

GuardZone check_device(const Bytes& bytes, const std::string& name, const Device& owner) {
  const auto place = find_block(owner.blocks, bytes.begin);
  if (place == owner.blocks.end() || place->second.is_free)
    throw Fault(name + " uses device memory that is not allocated");
  const Block& block = place->second;
  if (bytes.end > place->first + block.requested)
    throw Fault(name + " is given " + std::to_string(bytes.end - bytes.begin) + " bytes at byte " +
                std::to_string(bytes.begin - place->first) + " of " + std::to_string(block.requested) +
                " of device memory");
  return {place->first, block.requested, block.bytes};
}

// The guard zones of the device's blocks that the work is given.
std::vector<GuardZone> check_memory(const Work& work) {
  World& w = world();
  std::vector<GuardZone> zones;
  for (const Access& access : work.accesses) {
    if (access.bytes == 0) continue;
    const Bytes bytes = bytes_of(access);
    if (w.pinned.contains(bytes.begin)) check_pinned(bytes, work.name);
    const int owner = device_of_memory(bytes.begin);
    if (owner >= 0) zones.push_back(check_device(bytes, work.name, w.device(owner)));
  }
  return zones;
}

void access_pinned(const Record& own, Stream* stream, const Clock& host) {
  const auto place = find_block(world().pinned_blocks, own.begin);
  // Work that was captured does not know what has been freed since.
  if (place == world().pinned_blocks.end() || place->second.is_free)
    throw Fault(*own.name + " uses pinned memory that is not allocated");
  PinnedBlock& block = place->second;
  block.pending.push_back({stream->device, own.timeline, own.time, own.is_write, own.name});
  set_host_rights(place->first, block);
  const std::string race = block.accesses.add(own, stream->clock, host);
  if (!race.empty()) note_race(stream->device, race);
}

void access_device(const Record& own, Stream* stream, Device& owner) {
  const auto place = find_block(owner.blocks, own.begin);
  // Memory of graphs is theirs also where it is free.
  if (place == owner.blocks.end() || (place->second.is_free && place->second.pool == nullptr))
    throw Fault(*own.name + " uses device memory that is not allocated");
  const std::string race = place->second.accesses.add(own, stream->clock, owner.host);
  if (!race.empty()) note_race(stream->device, race);
}

void count_by_name(const std::string& name, const std::vector<Access>& accesses) {
  std::int64_t bytes = 0;
  for (const Access& access : accesses)
    if (device_of_memory(access.begin) >= 0)
      bytes += static_cast<std::int64_t>(access.bytes) * (access.is_update ? 2 : 1);
  count("launches", name);
  count("bytes", name, bytes);
}

}  // namespace

void run(Stream* stream, Work work, std::vector<GuardZone> zones) {
  World& w = world();
  const Device& device = w.device(stream->device);
  stream->clock.join(device.host);
  const std::uint64_t time = stream->clock.advance(stream->id);
  Task task{stream, time, w.interned(work.name), std::move(zones), std::move(work.run)};
  for (const Access& access : work.accesses) {
    if (access.bytes == 0) continue;
    const Bytes bytes = bytes_of(access);
    const Record own{bytes.begin, bytes.end, stream->id, time, access.is_write, task.name};
    if (w.pinned.contains(bytes.begin)) access_pinned(own, stream, device.host);
    const int owner = device_of_memory(bytes.begin);
    if (owner >= 0) access_device(own, stream, w.device(owner));
  }
  push(stream, std::move(task));
}

void enqueue(Stream* stream, Work work) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  Device& device = w.device(stream->device);
  device.errors.raise();
  std::vector<GuardZone> zones = check_memory(work);
  if (stream->capture != nullptr) return stream->capture->add({std::move(work), std::move(zones)});
  if (work.is_counted) {
    ++device.counters.launches;
    count_by_name(work.name, work.accesses);
  }
  run(stream, std::move(work), std::move(zones));
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
