// SPDX-License-Identifier: Apache-2.0
// Shared memory of a block, and copies to it that arrive later.
#pragma once

#include <vector_types.h>

#include <cstddef>

#include "tests/cuda_on_host/language/place.h"

namespace cuda_on_host {

// This block's array of the declaration that `tag` stands for: the same for all of its threads, and new for each block,
// every byte 0xFF (NaN in all floating types). It ends exactly where it was declared to.
void* shared_memory(const void* tag, std::size_t bytes, std::size_t alignment, const Place& place);

// What the launch has asked for beside the declared arrays.
void* dynamic_shared_memory();

// A copy of this thread that is under way. It arrives when the thread waits for it, or never.
struct LateCopy {
  void* to;
  uint4 value;
};

void copy_later(const LateCopy& copy, const Place& place);

// Closes a group: the copies since the last one.
void commit_copies();

// Takes one copy of the groups that must have arrived when all but the newest `left` have; false if there is none left.
bool take_copy(int left, LateCopy& copy);

}  // namespace cuda_on_host
