// SPDX-License-Identifier: Apache-2.0
// What the sources of this folder share. Only under World::mutex, unless a comment says otherwise; nobody holds it
// while waiting for a stream, where a collective may wait for another rank's host thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/emulator/device/counters.h"
#include "tests/emulator/device/event.h"
#include "tests/emulator/device/graph.h"
#include "tests/emulator/device/memory/access_log.h"
#include "tests/emulator/device/memory/address_space.h"
#include "tests/emulator/device/memory/arena.h"
#include "tests/emulator/device/memory/guard_zone.h"
#include "tests/emulator/device/memory/pinned_memory.h"
#include "tests/emulator/device/vector_clock.h"

namespace emulated {

struct Mark {
  std::mutex mutex;  // of has_passed and time
  std::condition_variable passed;
  bool has_passed = false;
  bool is_captured = false;  // recorded on a stream that is captured; never changes
  std::chrono::steady_clock::time_point time;
  Clock clock;  // never changes
  int device = 0;
};

struct Stream {
  std::size_t id = 0;
  int device = 0;
  Clock clock;  // what its next work is ordered after
  Graph* capture = nullptr;
  std::mutex mutex;  // of the next three
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  bool is_busy = false;
  std::atomic<std::uint64_t> finished{0};  // its own time, of what it has run
  std::mt19937_64 random;                  // its thread's
};

struct GraphPool;

struct Block {
  std::size_t bytes = 0;      // without guard zones
  std::size_t requested = 0;  // by the allocation that it serves
  std::int64_t number = 0;    // of that allocation
  bool is_free = false;
  Stream* stream = nullptr;  // whose allocations it serves
  std::vector<Stream*> users;
  std::vector<MarkPointer> open;    // what must pass before the block is used again
  std::shared_ptr<GraphPool> pool;  // that it belongs to
  AccessLog accesses;
};

// Errors and overruns of a device's streams, which their threads report. Has a mutex of its own.
class DeviceErrors {
 public:
  void report(const std::string& error);            // the first stays, as on CUDA
  void report_overrun(const std::string& overrun);  // is an error unless these are only logged
  bool has_error() const;
  void raise() const;                        // throws Fault if there is an error
  std::vector<std::string> take_overruns();  // since the last call

 private:
  mutable std::mutex mutex_;
  std::string error_;
  std::vector<std::string> overruns_;
  int printed_ = 0;
};

struct Device {
  Arena arena;  // never changes
  Clock host;   // what the host knows of the streams
  AddressSpace unused;
  std::map<const char*, Block> blocks;
  std::map<std::pair<Stream*, std::size_t>, std::deque<const char*>> free_blocks;  // by stream and bytes
  Counters counters;  // overruns: those that were taken from `errors`
  DeviceErrors errors;
  Stream* stream = nullptr;
  std::vector<Stream*> pool;
  std::size_t next_in_pool = 0;
};

struct Pending {  // a copy from or to pinned memory that the host has not waited for
  int device;
  std::size_t timeline;
  std::uint64_t time;
  bool is_write;
  const std::string* name;
};

struct PinnedBlock {
  std::size_t bytes = 0;
  bool is_free = false;
  std::vector<Pending> pending;
  AccessLog accesses;
};

struct World {
  World();
  Device& device(int index);  // may be called without the mutex; throws Fault if there is none
  const std::string* interned(const std::string& name);  // lives as long as the process

  std::recursive_mutex mutex;
  MemoryProtection protection;                   // may be used without the mutex, as the arenas
  std::vector<std::unique_ptr<Device>> devices;  // never changes
  std::vector<Stream*> streams{nullptr};         // by id
  Arena pinned;
  std::map<const char*, PinnedBlock> pinned_blocks;
  PinnedCounters pinned_counters;
  char* pinned_end = nullptr;
  std::unordered_set<std::string> names;
};
World& world();

// The block that contains the address, or the end.
template <class Blocks>
auto find_block(Blocks& blocks, const void* address) {
  auto place = blocks.upper_bound(static_cast<const char*>(address));
  if (place == blocks.begin()) return blocks.end();
  --place;
  return static_cast<const char*>(address) < place->first + place->second.bytes ? place : blocks.end();
}

void push(Stream* stream, std::function<void()> task);  // needs no mutex
// Gives the stream work whose memory has been checked.
void run(Stream* stream, Work work, std::vector<GuardZone> zones);
bool has_passed(const MarkPointer& mark);  // needs no mutex
void await(const MarkPointer& mark);       // must not hold the mutex

// The host has learnt how far the streams are: it gets back the pinned memory whose copies it has waited for.
void learn(int device, const Clock& clock);
void set_host_rights(const char* begin, const PinnedBlock& block);

// Counts a race, and throws it unless races are only logged.
void note_race(int device, const std::string& race);
// Counts a wait of the host. Throws Fault where it may not wait: in a capture, and under NoSynchronisation.
void count_wait(int device, const std::string& why);

// Looks at the guard zones of all of a device's blocks.
void check_guard_zones(int device);

}  // namespace emulated
