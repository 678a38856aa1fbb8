// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <vector>

#include "tests/cuda_on_host/language/memory.h"
#include "tests/cuda_on_host/language/place.h"
#include "tests/cuda_on_host/language/threads.h"

namespace cuda_on_host {

struct PendingCopy {
  LateCopy copy;
  unsigned group;
};

// A thread of a block: a stack of its own, on the host thread that launches.
struct Fiber {
  boost::context::detail::fcontext_t context = nullptr;
  std::byte* stack = nullptr;  // mapped once and kept
  void* for_thread_sanitizer = nullptr;
  void* fake_stack = nullptr;  // the address sanitizer's
  unsigned number = 0;         // in its block
  Index index;
  bool has_ended = false;
  // While it waits:
  const char* waits_for = nullptr;
  Place place;
  unsigned mask = 0;  // 0: the whole block
  std::vector<PendingCopy> copies;
  unsigned open_group = 0;
};

// Makes `fiber` the thread of this number, which starts when it is first continued.
void prepare(Fiber& fiber, unsigned number);

// Lets it run until it waits or ends.
void continue_fiber(Fiber& fiber);

// A thread of a failed launch hangs for ever: it keeps its stack and what lies on it, and the fiber gets another one.
void abandon(Fiber& fiber);

// From the running fiber back to the scheduler, until it is continued.
void give_way();

}  // namespace cuda_on_host
