// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace emulated {

// What a device has done since the process started.
struct Counters {
  std::int64_t launches = 0;     // work that a stream took, without the filling of new memory
  std::int64_t allocations = 0;  // also those that the cache served
  std::int64_t growths = 0;      // allocations that it could not serve
  std::int64_t synchronisations = 0, item_reads = 0, pageable_copies = 0;
  std::int64_t bytes_to_device = 0, bytes_to_host = 0;
  std::int64_t allocated = 0, peak = 0, reserved = 0;  // bytes, in blocks of 512, without guard zones
  std::int64_t recent_peak = 0;                        // since it was set back to what is allocated
  std::int64_t races = 0, overruns = 0;
  std::int64_t streams = 0, streams_destroyed = 0;
  std::map<std::string, std::int64_t> waits;  // how often the host waited, by what for
  std::vector<std::string> reports;           // of races and overruns, the first 100
};

// They go on counting, and a test may set them back. To be read while no other host thread uses the device.
Counters& counters(int device);
void count(int device, std::int64_t Counters::*what, std::int64_t amount = 1);

// What belongs to no device: {"communicators": {"created": 2}}, say. Part of the report.
using NamedCounts = std::map<std::string, std::map<std::string, std::int64_t>>;
NamedCounts named_counts();
void count(const std::string& group, const std::string& name, std::int64_t amount = 1);

// While it lives, a synchronisation by the thread that made it throws Fault.
class NoSynchronisation {
 public:
  NoSynchronisation();
  ~NoSynchronisation();
  NoSynchronisation(const NoSynchronisation&) = delete;
  NoSynchronisation& operator=(const NoSynchronisation&) = delete;
};

}  // namespace emulated
