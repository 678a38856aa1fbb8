// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/runtime.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

namespace emulated {
namespace {

using SteadyClock = std::chrono::steady_clock;
// How far each timeline is known to have come: timeline 0 is unused, the others are streams by id.
using Clock = std::vector<std::uint64_t>;

std::uint64_t at(const Clock& clock, std::size_t timeline) { return timeline < clock.size() ? clock[timeline] : 0; }
void join(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

enum class Protection { keys, alias, none };

Settings read_settings() {
  const auto number = [](const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
  };
  Settings s;
  s.devices = static_cast<int>(number("EMULATED_DEVICES", 2));
  s.memory = number("EMULATED_MEMORY", 4096) << 20;
  s.seed = number("EMULATED_SEED", 1);
  s.longest_delay = static_cast<int>(number("EMULATED_DELAY", 100));
  const char* report = std::getenv("EMULATED_REPORT");
  s.throws = report == nullptr || std::string(report) != "log";
  return s;
}

constexpr std::size_t page = 4096, granule = 512;
constexpr std::size_t span = std::size_t{64} << 30;  // addresses per device, and of pinned memory

// Addresses with memory behind the used ones. Under Protection::alias the public ones are not accessible, and streams
// use a second mapping of the same memory.
struct Arena {
  char* base = nullptr;
  std::ptrdiff_t to_alias = 0;
  bool contains(const void* p) const { return p >= base && p < base + span; }
};

struct Record {  // of an access
  const char* begin;
  const char* end;
  std::size_t timeline;
  std::uint64_t time;
  bool is_write;
  std::string name;
};

struct Block {
  std::size_t bytes = 0;
  bool is_free = false;
  Stream* stream = nullptr;  // whose allocations it serves
  std::vector<Stream*> users;
  std::vector<MarkPointer> open;  // what must pass before the block is used again
  std::vector<Record> records;
};

struct Pending {  // a copy from or to pinned memory that the host has not waited for
  int device;
  std::size_t timeline;
  std::uint64_t time;
  bool is_write;
  std::string name;
};
struct PinnedBlock {
  std::size_t bytes = 0;
  bool is_free = false;
  std::vector<Pending> pending;
  std::vector<Record> records;
};

}  // namespace

struct Mark {
  std::mutex mutex;
  std::condition_variable passed;
  bool has_passed = false;
  SteadyClock::time_point time;
  Clock clock;
  int device = 0;
};

struct Stream {
  std::size_t id = 0;
  int device = 0;
  Clock clock;
  Graph* capture = nullptr;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> queue;
  bool is_busy = false;
  std::atomic<std::uint64_t> finished{0};  // the stream's own time
  std::mt19937_64 random;
  std::thread thread;
};

namespace {

struct Device {
  Arena arena;
  Clock host;  // what the host knows of the streams
  std::map<const char*, Block> blocks;
  std::map<const char*, std::size_t> holes;  // unused addresses
  Counters counters;
  std::mutex error_mutex;
  std::string error;  // the first of a stream; it stays, as on CUDA
  Stream* stream = nullptr;
};

struct World {
  std::recursive_mutex mutex;
  Protection protection = Protection::none;
  int key = 0;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Stream*> streams{nullptr};
  Arena pinned;
  std::map<const char*, PinnedBlock> pinned_blocks;
  char* pinned_end = nullptr;
  int captures = 0;

  World();
  Arena arena() const;
};

World& world() {
  static World* const instance = new World;  // streams' threads outlive static destructors
  return *instance;
}

thread_local int own_device = 0;
thread_local std::map<int, Stream*> own_streams;
thread_local int forbidding = 0;

Arena World::arena() const {
  Arena made;
  if (protection != Protection::alias) {
    void* base = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) throw std::runtime_error("no addresses for a device");
    made.base = static_cast<char*>(base);
    return made;
  }
  const int file = memfd_create("emulated", 0);
  if (file < 0 || ftruncate(file, static_cast<off_t>(span)) != 0) throw std::runtime_error("no memory for a device");
  void* base = mmap(nullptr, span, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
  void* alias = mmap(nullptr, span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (base == MAP_FAILED || alias == MAP_FAILED) throw std::runtime_error("no addresses for a device");
  made.base = static_cast<char*>(base);
  made.to_alias = static_cast<char*>(alias) - made.base;
  return made;
}

World::World() {
  const char* asked = std::getenv("EMULATED_PROTECTION");
  const std::string wish = asked != nullptr ? asked : "";
  // Rights by key are per thread: host threads have none, streams' threads all. New threads inherit them.
  key = wish.empty() || wish == "keys" ? pkey_alloc(0, PKEY_DISABLE_ACCESS) : -1;
  protection = key >= 0 ? Protection::keys : wish == "none" ? Protection::none : Protection::alias;
  for (int d = 0; d < settings().devices; ++d) {
    auto device = std::make_unique<Device>();
    device->arena = arena();
    if (protection == Protection::keys) pkey_mprotect(device->arena.base, span, PROT_READ | PROT_WRITE, key);
    device->holes[device->arena.base] = span;
    devices.push_back(std::move(device));
  }
  pinned = arena();
  pinned_end = pinned.base;
}

void work_off(Stream* stream) {
  if (world().protection == Protection::keys) pkey_set(world().key, 0);
  std::unique_lock lock(stream->mutex);
  while (true) {
    stream->changed.wait(lock, [&] { return !stream->queue.empty(); });
    const std::function<void()> task = std::move(stream->queue.front());
    stream->queue.pop_front();
    stream->is_busy = true;
    lock.unlock();
    const int longest = settings().longest_delay;
    // Mostly nothing, now and then long: both orders of two streams are to occur.
    if (longest > 0 && stream->random() % 4 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(stream->random() % static_cast<unsigned>(longest)));
    try {
      task();
    } catch (const std::exception& error) {
      Device& device = *world().devices[static_cast<std::size_t>(stream->device)];
      const std::lock_guard error_lock(device.error_mutex);
      const std::string text = error.what();
      if (device.error.empty()) device.error = text.substr(0, text.find('\n'));  // without LibTorch's backtrace
    }
    lock.lock();
    stream->is_busy = false;
    if (stream->queue.empty()) stream->changed.notify_all();
  }
}

Device& device_at(int device) { return *world().devices.at(static_cast<std::size_t>(device)); }

// Errors of streams surface at a later call of the host.
void raise_errors(int device) {
  Device& d = device_at(device);
  const std::lock_guard lock(d.error_mutex);
  if (!d.error.empty()) throw Fault("device error, seen late: " + d.error);
}

bool has_failed(int device) {
  Device& d = device_at(device);
  const std::lock_guard lock(d.error_mutex);
  return !d.error.empty();
}

void push(Stream* stream, std::function<void()> task) {
  {
    const std::lock_guard lock(stream->mutex);
    stream->queue.push_back(std::move(task));
  }
  stream->changed.notify_all();
}

template <class Blocks>
auto find_block(Blocks& blocks, const void* address) {
  auto place = blocks.upper_bound(static_cast<const char*>(address));
  if (place == blocks.begin()) return blocks.end();
  --place;
  return static_cast<const char*>(address) < place->first + place->second.bytes ? place : blocks.end();
}

void note_race(int device, const std::string& report) {
  Counters& c = counters(device);
  ++c.races;
  if (c.race_reports.size() < 100) c.race_reports.push_back(report);
  if (settings().throws) throw Fault(report);
  if (c.races <= 20) std::fprintf(stderr, "emulated: %s\n", report.c_str());
}

// Looks for earlier accesses that nothing orders before this one, and keeps this one.
void check_access(std::vector<Record>& records, Stream* stream, Record own) {
  std::string report;
  for (const Record& r : records) {
    const bool overlaps = r.begin < own.end && own.begin < r.end;
    if (!overlaps || !(r.is_write || own.is_write) || r.time <= at(stream->clock, r.timeline)) continue;
    report = "race: " + own.name + (own.is_write ? " writes" : " reads") + " on stream " + std::to_string(stream->id) +
             " what " + r.name + (r.is_write ? " writes" : " reads") + " on stream " + std::to_string(r.timeline) +
             ", and no event orders them";
  }
  std::erase_if(records, [&](const Record& r) {
    const bool is_inside = own.begin <= r.begin && r.end <= own.end;
    const bool is_before = r.time <= at(stream->clock, r.timeline);
    return is_inside && is_before && (own.is_write || (!r.is_write && r.timeline == own.timeline));
  });
  records.push_back(std::move(own));
  if (!report.empty()) note_race(stream->device, report);
}

void protect(const char* begin, PinnedBlock& block) {
  const bool is_written = std::any_of(block.pending.begin(), block.pending.end(), [](const Pending& p) { return p.is_write; });
  const bool is_read = !block.pending.empty();
  const int public_rights = is_written ? PROT_NONE : is_read ? PROT_READ : PROT_READ | PROT_WRITE;
  auto* const address = const_cast<char*>(begin);
  if (world().protection == Protection::alias) mprotect(address, block.bytes, public_rights);
  if (world().protection == Protection::keys) {
    if (is_written)
      pkey_mprotect(address, block.bytes, PROT_READ | PROT_WRITE, world().key);
    else
      pkey_mprotect(address, block.bytes, public_rights, 0);
  }
}

// After the host has learnt more of the streams: gives it back the pinned memory whose copies it has waited for.
void give_back_pinned(int device) {
  const Clock& host = device_at(device).host;
  for (auto& [begin, block] : world().pinned_blocks) {
    const std::size_t before = block.pending.size();
    std::erase_if(block.pending, [&](const Pending& p) { return p.device == device && p.time <= at(host, p.timeline); });
    if (block.pending.size() != before) protect(begin, block);
  }
}

void learn(int device, const Clock& clock) {
  join(device_at(device).host, clock);
  give_back_pinned(device);
}

void count_wait(int device, const std::string& why) {
  if (world().captures > 0) throw Fault("synchronisation while a graph is captured: " + why);
  if (forbidding > 0) throw Fault("forbidden synchronisation: " + why);
  Counters& c = counters(device);
  ++c.synchronisations;
  c.waits.push_back(why);
  if (c.waits.size() > 1000) c.waits.erase(c.waits.begin(), c.waits.begin() + 500);
}

void await(const MarkPointer& mark) {
  std::unique_lock lock(mark->mutex);
  mark->passed.wait(lock, [&] { return mark->has_passed; });
}

bool has_passed(const MarkPointer& mark) {
  const std::lock_guard lock(mark->mutex);
  return mark->has_passed;
}

}  // namespace

Settings& settings() {
  static Settings instance = read_settings();
  return instance;
}

const char* protection() {
  constexpr const char* names[] = {"keys", "alias", "none"};
  return names[static_cast<int>(world().protection)];
}

Counters& counters(int device) { return device_at(device).counters; }

NoSynchronisation::NoSynchronisation() { ++forbidding; }
NoSynchronisation::~NoSynchronisation() { --forbidding; }

Stream* new_stream(int device) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  auto* stream = new Stream;  // never freed: handles may be kept anywhere
  stream->id = w.streams.size();
  stream->device = device;
  stream->random.seed(settings().seed * 1000 + stream->id);
  stream->clock.resize(stream->id + 1);
  w.streams.push_back(stream);
  stream->thread = std::thread(work_off, stream);
  stream->thread.detach();
  return stream;
}

Stream* default_stream(int device) {
  const std::lock_guard lock(world().mutex);
  Device& d = device_at(device);
  if (d.stream == nullptr) d.stream = new_stream(device);
  return d.stream;
}

Stream* find_stream(std::int64_t id) {
  const std::lock_guard lock(world().mutex);
  return world().streams.at(static_cast<std::size_t>(id));
}
std::int64_t id_of(const Stream* stream) { return static_cast<std::int64_t>(stream->id); }
int device_of(const Stream* stream) { return stream->device; }

int current_device() { return own_device; }
int exchange_device(int device) { return std::exchange(own_device, device); }
Stream* current_stream(int device) {
  Stream*& own = own_streams[device];
  if (own == nullptr) own = default_stream(device);
  return own;
}
Stream* exchange_stream(Stream* stream) {
  Stream* const before = current_stream(stream->device);
  own_streams[stream->device] = stream;
  return before;
}

void enqueue(Stream* stream, Work work) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  raise_errors(stream->device);
  if (stream->capture != nullptr) {
    stream->capture->add(std::move(work));
    return;
  }
  Device& device = device_at(stream->device);
  ++device.counters.launches;
  join(stream->clock, device.host);
  const std::uint64_t time = ++stream->clock[stream->id];
  for (const Access& access : work.accesses) {
    if (access.bytes == 0) continue;
    const auto* begin = static_cast<const char*>(access.begin);
    Record own{begin, begin + access.bytes, stream->id, time, access.is_write, work.name};
    if (w.pinned.contains(begin)) {
      const auto place = find_block(w.pinned_blocks, begin);
      if (place == w.pinned_blocks.end()) throw Fault(work.name + " uses pinned memory that was never allocated");
      place->second.pending.push_back({stream->device, stream->id, time, access.is_write, work.name});
      protect(place->first, place->second);
      check_access(place->second.records, stream, std::move(own));
      continue;
    }
    const int owner = device_of_memory(begin);
    if (owner < 0) continue;
    auto& blocks = device_at(owner).blocks;
    const auto place = find_block(blocks, begin);
    if (place == blocks.end() || place->second.is_free)
      throw Fault(work.name + " uses device memory that is not allocated");
    check_access(place->second.records, stream, std::move(own));
  }
  push(stream, [stream, time, run = std::move(work.run)] {
    struct Finish {
      Stream* of;
      std::uint64_t at;
      ~Finish() { of->finished = at; }
    } const finish{stream, time};
    if (!has_failed(stream->device)) run();  // after an error nothing runs any more, as on CUDA
  });
}

MarkPointer record(Stream* stream) {
  const std::lock_guard lock(world().mutex);
  auto mark = std::make_shared<Mark>();
  mark->device = stream->device;
  if (stream->capture != nullptr) {
    mark->has_passed = true;
    return mark;
  }
  join(stream->clock, device_at(stream->device).host);
  mark->clock = stream->clock;
  push(stream, [mark] {
    const std::lock_guard mark_lock(mark->mutex);
    mark->has_passed = true;
    mark->time = SteadyClock::now();
    mark->passed.notify_all();
  });
  return mark;
}

void wait(Stream* stream, const MarkPointer& mark) {
  if (mark == nullptr || stream->capture != nullptr) return;
  const std::lock_guard lock(world().mutex);
  join(stream->clock, mark->clock);
  push(stream, [mark] { await(mark); });
}

bool query(const MarkPointer& mark) {
  if (mark == nullptr) return true;
  const std::lock_guard lock(world().mutex);
  raise_errors(mark->device);
  if (!has_passed(mark)) return false;
  learn(mark->device, mark->clock);
  return true;
}

double seconds_of(const MarkPointer& mark) {
  const std::lock_guard lock(mark->mutex);
  return std::chrono::duration<double>(mark->time.time_since_epoch()).count();
}

bool is_idle(Stream* stream) {
  const std::lock_guard lock(stream->mutex);
  return stream->queue.empty() && !stream->is_busy;
}

void synchronize(const MarkPointer& mark, const std::string& why) {
  if (mark == nullptr) return;
  {
    const std::lock_guard lock(world().mutex);
    count_wait(mark->device, why);
  }
  await(mark);
  const std::lock_guard lock(world().mutex);
  learn(mark->device, mark->clock);
  raise_errors(mark->device);
}

void synchronize(Stream* stream, const std::string& why) {
  if (world().captures > 0) throw Fault("synchronisation while a graph is captured: " + why);
  synchronize(record(stream), why);
}

void synchronize_device(int device, const std::string& why) {
  std::vector<MarkPointer> marks;
  {
    const std::lock_guard lock(world().mutex);
    count_wait(device, why);
    for (Stream* stream : world().streams)
      if (stream != nullptr && stream->device == device) marks.push_back(record(stream));
  }
  for (const MarkPointer& mark : marks) await(mark);
  const std::lock_guard lock(world().mutex);
  for (const MarkPointer& mark : marks) learn(device, mark->clock);
  raise_errors(device);
}

int device_of_memory(const void* memory) {
  const World& w = world();
  for (std::size_t d = 0; d < w.devices.size(); ++d)
    if (w.devices[d]->arena.contains(memory)) return static_cast<int>(d);
  return -1;
}
bool is_pinned(const void* memory) { return world().pinned.contains(memory); }

void* reachable(const void* memory) {
  auto* const address = const_cast<char*>(static_cast<const char*>(memory));
  const World& w = world();
  if (w.protection != Protection::alias) return address;
  if (w.pinned.contains(memory)) return address + w.pinned.to_alias;
  const int device = device_of_memory(memory);
  return device < 0 ? address : address + w.devices[static_cast<std::size_t>(device)]->arena.to_alias;
}

void relocate(void* bytes, std::size_t size) {
  for (std::size_t i = 0; i + sizeof(void*) <= size; i += alignof(void*)) {
    void* word = nullptr;
    std::memcpy(&word, static_cast<char*>(bytes) + i, sizeof word);
    void* const there = reachable(word);
    std::memcpy(static_cast<char*>(bytes) + i, &there, sizeof there);
  }
}

namespace {

bool fits(const Device& d, std::size_t size) {
  return d.counters.reserved + static_cast<std::int64_t>(size) <= static_cast<std::int64_t>(settings().memory);
}

// Returns cached blocks to the device. The caller has waited for it, as cudaFree() does.
void empty_cache(Device& d) {
  for (auto place = d.blocks.begin(); place != d.blocks.end();) {
    if (!place->second.is_free) {
      ++place;
      continue;
    }
    d.counters.reserved -= static_cast<std::int64_t>(place->second.bytes);
    auto hole = d.holes.emplace(place->first, place->second.bytes).first;
    const auto next = std::next(hole);
    if (next != d.holes.end() && hole->first + hole->second == next->first) {
      hole->second += next->second;
      d.holes.erase(next);
    }
    if (hole != d.holes.begin()) {
      const auto before = std::prev(hole);
      if (before->first + before->second == hole->first) {
        before->second += hole->second;
        d.holes.erase(hole);
      }
    }
    place = d.blocks.erase(place);
  }
}

// A cached block that nothing uses any more.
const char* find_cached(Device& d, Stream* stream, std::size_t bytes) {
  for (auto& [begin, block] : d.blocks) {
    if (!block.is_free || block.stream != stream || block.bytes != bytes) continue;
    if (!std::all_of(block.open.begin(), block.open.end(), has_passed)) continue;
    for (const MarkPointer& mark : block.open) learn(stream->device, mark->clock);
    block.open.clear();
    return begin;
  }
  return nullptr;
}

}  // namespace

void* allocate(int device, std::size_t bytes) {
  if (bytes == 0) return nullptr;
  std::unique_lock lock(world().mutex);
  raise_errors(device);
  Device& d = device_at(device);
  Stream* const stream = current_stream(device);
  const std::size_t size = (bytes + granule - 1) / granule * granule;
  const char* begin = find_cached(d, stream, size);
  if (begin == nullptr) {
    ++d.counters.growths;
    if (stream->capture != nullptr && !fits(d, size)) throw Fault("memory runs out while a graph is captured");
    if (!fits(d, size)) {
      // Without the lock: a collective on a stream may wait for another rank's thread.
      lock.unlock();
      synchronize_device(device, "the allocator gives cached memory back");
      lock.lock();
      empty_cache(d);
    }
    if (!fits(d, size))
      throw OutOfMemory("CUDA out of memory (emulated). Tried to allocate " + std::to_string(bytes) + " bytes; GPU " +
                        std::to_string(device) + " has " + std::to_string(settings().memory) + ", of which " +
                        std::to_string(d.counters.allocated) + " are allocated");
    const auto hole = std::find_if(d.holes.begin(), d.holes.end(), [&](const auto& h) { return h.second >= size; });
    begin = hole->first;
    const std::size_t left = hole->second - size;
    d.holes.erase(hole);
    if (left > 0) d.holes[begin + size] = left;
    Block block;
    block.bytes = size;
    d.blocks[begin] = std::move(block);
    d.counters.reserved += static_cast<std::int64_t>(size);
  }
  Block& block = d.blocks[begin];
  block.is_free = false;
  block.stream = stream;
  ++d.counters.allocations;
  d.counters.allocated += static_cast<std::int64_t>(size);
  d.counters.peak = std::max(d.counters.peak, d.counters.allocated);
  // New memory holds anything; 0xff is NaN in every floating-point type.
  const Access whole{begin, size, true};
  enqueue(stream, {"a new allocation", {whole}, [begin, size] { std::memset(reachable(begin), 0xff, size); }});
  --d.counters.launches;
  return const_cast<char*>(begin);
}

void release(void* memory) {
  if (memory == nullptr) return;
  const std::lock_guard lock(world().mutex);
  Device& d = device_at(device_of_memory(memory));
  Block& block = d.blocks.at(static_cast<const char*>(memory));
  d.counters.allocated -= static_cast<std::int64_t>(block.bytes);
  if (block.stream->capture != nullptr) {
    block.stream->capture->keep(memory);
    return;
  }
  block.is_free = true;
  for (Stream* user : block.users) block.open.push_back(record(user));
  block.users.clear();
}

void record_use(const void* memory, Stream* stream) {
  const std::lock_guard lock(world().mutex);
  const int device = device_of_memory(memory);
  if (device < 0) return;
  auto& blocks = device_at(device).blocks;
  const auto place = find_block(blocks, memory);
  if (place != blocks.end() && place->second.stream != stream) place->second.users.push_back(stream);
}

void* allocate_pinned(std::size_t bytes) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  // Whole pages, because protection knows no smaller piece.
  const std::size_t size = std::max(page, (bytes + page - 1) / page * page);
  for (auto& [begin, block] : w.pinned_blocks) {
    if (!block.is_free || block.bytes != size) continue;
    const bool is_used = std::any_of(block.pending.begin(), block.pending.end(), [&](const Pending& p) {
      return w.streams[p.timeline]->finished < p.time;
    });
    if (is_used) continue;
    block.pending.clear();
    block.records.clear();
    protect(begin, block);
    block.is_free = false;
    return const_cast<char*>(begin);
  }
  char* const begin = std::exchange(w.pinned_end, w.pinned_end + size);
  PinnedBlock& block = w.pinned_blocks[begin];
  block.bytes = size;
  protect(begin, block);
  return begin;
}

void release_pinned(void* memory) {
  const std::lock_guard lock(world().mutex);
  world().pinned_blocks.at(static_cast<const char*>(memory)).is_free = true;
}

Graph::~Graph() {
  if (stream_ != nullptr && stream_->capture == this) end();  // an error has ended the capture
  for (void* memory : kept_) {
    const std::lock_guard lock(world().mutex);
    device_at(device_of_memory(memory)).blocks.at(static_cast<const char*>(memory)).is_free = true;
  }
}

void Graph::begin(Stream* stream) {
  const std::lock_guard lock(world().mutex);
  stream_ = stream;
  stream->capture = this;
  ++world().captures;
}

void Graph::end() {
  const std::lock_guard lock(world().mutex);
  stream_->capture = nullptr;
  --world().captures;
}

void Graph::replay(Stream* stream) const {
  for (const Work& work : works_) enqueue(stream, work);
}

namespace {

void on_bad_access(int, siginfo_t* info, void*) {
  const World& w = world();
  const int device = device_of_memory(info->si_addr);
  char text[300];
  int length = 0;
  if (device >= 0)
    length = std::snprintf(text, sizeof text, "the host touches memory of device %d\n", device);
  else if (is_pinned(info->si_addr)) {
    const auto place = find_block(const_cast<World&>(w).pinned_blocks, info->si_addr);
    const bool has_pending = place != const_cast<World&>(w).pinned_blocks.end() && !place->second.pending.empty();
    length = std::snprintf(text, sizeof text, "the host touches pinned memory while %s is pending\n",
                           has_pending ? place->second.pending.back().name.c_str() : "nothing");
  }
  if (length > 0) {
    (void)!write(2, text, static_cast<std::size_t>(length));
    _exit(86);
  }
  std::signal(SIGSEGV, SIG_DFL);
}

}  // namespace

void report_bad_accesses() {
  struct sigaction action {};
  action.sa_sigaction = on_bad_access;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}

}  // namespace emulated
