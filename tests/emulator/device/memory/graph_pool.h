// SPDX-License-Identifier: Apache-2.0
// The memory of captures, as LibTorch's private pools: what is allocated in a capture comes from it and returns to it,
// and nobody else gets it while one of its graphs lives, because their replays use it whether it is free or not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "tests/emulator/device/stream.h"

namespace emulated {

// Under World::mutex.
struct GraphPool {
  int device = 0;
  int graphs = 0;                                                                     // that use it
  std::int64_t allocated = 0, peak = 0;                                               // bytes
  std::map<std::pair<Stream*, std::size_t>, std::vector<const char*>> free_blocks{};  // by stream and bytes
  std::set<Stream*> users{};                                                          // that have replayed its graphs
};

struct Block;

// A free block of the pool; nullptr: there is none of the size.
char* take_from(GraphPool& pool, Stream* stream, std::size_t bytes);
// Notes that the block has been taken, and counts the pool's new peak as memory that is allocated on its device.
void count_taken(GraphPool& pool, std::size_t bytes);
// Takes back a block of a pool that has graphs.
void give_back(GraphPool& pool, const char* begin, Block& block);
// A graph of the pool ends; with the last one its free blocks are the device's.
void leave(GraphPool& pool);

}  // namespace emulated
