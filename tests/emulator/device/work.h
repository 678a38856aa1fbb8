// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/emulator/device/stream.h"

namespace emulated {

// Bytes of device or pinned memory that an operation reads or writes; other memory is ignored.
struct Access {
  const void* begin;
  std::size_t bytes;
  bool is_write;
  bool is_update = false;  // a write of what was read before, which counts as both
};

struct Work {
  std::string name;
  std::vector<Access> accesses;
  std::function<void()> run;  // on the stream's thread
  bool is_counted = true;     // as a launch; the filling of new memory is none
};

// Returns at once; the stream runs the work after all that it has been given before. Throws Fault for a race with work
// of another stream, for memory that is not allocated, and for an earlier error of the device.
void enqueue(Stream* stream, Work work);

// Where a stream's thread finds what the host knows as `memory`.
void* reachable(const void* memory);

// Replaces every word among `size` bytes that is an address of device or pinned memory by reachable() of it.
void relocate(void* bytes, std::size_t size);

// Calls function(copy of parameters) on the stream, after relocate(). `Parameters` is a plain struct that holds no
// pointer to other pointers.
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

}  // namespace emulated
