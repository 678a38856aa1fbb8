// SPDX-License-Identifier: Apache-2.0
// An emulated GPU: streams that run on threads, events, device memory that the host cannot read, pinned memory, and
// checks. Knows nothing of LibTorch. Control functions may be called from any host thread; none of them, except
// reachable(), may be called from a stream's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace emulated {

// What a program does wrong on the device.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct OutOfMemory : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// From the environment: EMULATED_DEVICES, EMULATED_MEMORY (MiB per device), EMULATED_SEED, EMULATED_DELAY (longest
// random delay before an operation, µs), EMULATED_REPORT ("throw" or "log" races), EMULATED_PROTECTION ("keys", "alias"
// or "none"; by default keys where the processor has them, else alias).
struct Settings {
  int devices = 2;
  std::size_t memory = std::size_t{4} << 30;
  std::uint64_t seed = 1;
  int longest_delay = 100;
  bool throws = true;
};
Settings& settings();

struct Counters {
  std::int64_t launches = 0, allocations = 0, growths = 0;  // growths: allocations that the cache could not serve
  std::int64_t synchronisations = 0, item_reads = 0, pageable_copies = 0;
  std::int64_t bytes_to_device = 0, bytes_to_host = 0;
  std::int64_t allocated = 0, peak = 0, reserved = 0;
  std::int64_t races = 0;
  std::vector<std::string> waits, race_reports;  // what the host waited for; the last of each
};
Counters& counters(int device);

// While it lives, a synchronisation of the host throws Fault.
class NoSynchronisation {
 public:
  NoSynchronisation();
  ~NoSynchronisation();
  NoSynchronisation(const NoSynchronisation&) = delete;
  NoSynchronisation& operator=(const NoSynchronisation&) = delete;
};

// Bytes of device or pinned memory that an operation reads or writes; others are ignored.
struct Access {
  const void* begin;
  std::size_t bytes;
  bool is_write;
};
struct Work {
  std::string name;
  std::vector<Access> accesses;
  std::function<void()> run;  // on the stream's thread
};

struct Stream;
struct Mark;  // one recording of an event
using MarkPointer = std::shared_ptr<Mark>;

Stream* default_stream(int device);
Stream* new_stream(int device);
Stream* find_stream(std::int64_t id);  // ids are unique over all devices; 0 is none
std::int64_t id_of(const Stream* stream);
int device_of(const Stream* stream);
int current_device();
int exchange_device(int device);
Stream* current_stream(int device);
Stream* exchange_stream(Stream* stream);

void enqueue(Stream* stream, Work work);
MarkPointer record(Stream* stream);
void wait(Stream* stream, const MarkPointer& mark);
bool query(const MarkPointer& mark);  // true orders the host after the mark, as on CUDA
double seconds_of(const MarkPointer& mark);
bool is_idle(Stream* stream);
// Block the host, and are counted as `why`.
void synchronize(const MarkPointer& mark, const std::string& why);
void synchronize(Stream* stream, const std::string& why);
void synchronize_device(int device, const std::string& why);

// From a caching allocator: a freed block serves the next allocation of its stream at once.
void* allocate(int device, std::size_t bytes);
void release(void* memory);
void record_use(const void* memory, Stream* stream);
void* allocate_pinned(std::size_t bytes);
void release_pinned(void* memory);
int device_of_memory(const void* memory);  // -1: not of a device
bool is_pinned(const void* memory);
// Where a stream's thread finds what the host knows as `memory`.
void* reachable(const void* memory);

// Calls function(copy of parameters) on the stream, with every word of the copy that is an address of device memory
// replaced by reachable(). `Parameters` is a plain struct that holds no pointer to other pointers.
void relocate(void* bytes, std::size_t size);
template <class Parameters>
void launch(Stream* stream, std::string name, std::vector<Access> accesses, const Parameters& parameters,
            void (*function)(const Parameters&)) {
  static_assert(std::is_trivially_copyable_v<Parameters>);
  enqueue(stream, {std::move(name), std::move(accesses), [parameters, function] {
                     Parameters own = parameters;
                     relocate(&own, sizeof own);
                     function(own);
                   }});
}

// As a CUDA graph: work is kept instead of run, with its addresses and scalars as they were.
class Graph {
 public:
  ~Graph();
  void begin(Stream* stream);
  void end();
  void replay(Stream* stream) const;
  std::size_t size() const { return works_.size(); }
  void add(Work work) { works_.push_back(std::move(work)); }
  void keep(void* memory) { kept_.push_back(memory); }

 private:
  Stream* stream_ = nullptr;
  std::vector<Work> works_;
  std::vector<void*> kept_;  // freed while capturing: the graph's until its end
};

// Makes a host access to device memory, or to pinned memory that a copy still uses, print what it touched and exit
// with 86.
void report_bad_accesses();
const char* protection();

}  // namespace emulated
