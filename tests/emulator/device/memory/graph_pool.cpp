// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/memory/graph_pool.h"

#include <algorithm>

#include "tests/emulator/device/world.h"

namespace emulated {

char* take_from(GraphPool& pool, Stream* stream, std::size_t bytes) {
  std::vector<const char*>& blocks = pool.free_blocks[{stream, bytes}];
  if (blocks.empty()) return nullptr;
  char* const begin = const_cast<char*>(blocks.back());
  blocks.pop_back();
  return begin;
}

void count_taken(GraphPool& pool, std::size_t bytes) {
  pool.allocated += static_cast<std::int64_t>(bytes);
  const std::int64_t more = std::max<std::int64_t>(0, pool.allocated - pool.peak);
  pool.peak += more;
  world().device(pool.device).counters.allocated += more;
}

void give_back(GraphPool& pool, const char* begin, Block& block) {
  pool.allocated -= static_cast<std::int64_t>(block.bytes);
  block.is_free = true;
  block.users.clear();
  pool.free_blocks[{block.stream, block.bytes}].push_back(begin);
}

void leave(GraphPool& pool) {
  if (--pool.graphs > 0) return;
  Device& d = world().device(pool.device);
  // What is still in use counts as other memory from here on.
  d.counters.allocated -= pool.peak - pool.allocated;
  for (const auto& [key, blocks] : pool.free_blocks) {
    for (const char* begin : blocks) {
      Block& block = d.blocks.at(begin);
      block.pool.reset();
      for (Stream* user : pool.users) block.open.push_back(record(user));
      d.free_blocks[key].push_back(begin);
    }
  }
  pool.free_blocks.clear();
}

}  // namespace emulated
