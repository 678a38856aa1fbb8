// SPDX-License-Identifier: Apache-2.0
// Memory of a device, from a caching allocator such as LibTorch's: a freed block serves the next allocation of its size
// on its stream at once. New memory is NaN in every floating-point type. Around each block lie guard zones, in which an
// overrun is found (guard_zone.h).
#pragma once

#include <cstddef>

#include "tests/emulator/device/stream.h"

namespace emulated {

// For the thread's current stream. Throws OutOfMemory. 0 bytes are nullptr.
void* allocate(int device, std::size_t bytes);
void release(void* memory);                           // throws Fault unless it was allocated and is in use
void record_use(const void* memory, Stream* stream);  // the block is not used again before what the stream has now
int device_of_memory(const void* memory);             // -1: of none
std::size_t bytes_of(const void* memory);             // that were allocated at this address; 0: none
// Gives cached memory back to the device, for which the host waits; not that of graphs.
void empty_cache(int device);

}  // namespace emulated
