// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

namespace llmtrain {

// Blocks of the host's memory that stay with the process when they are freed, so that the next step finds pages that
// the system need not clear again, and that never are more than its blocks have needed: a block is cut from the
// smallest free piece that holds it, a freed one joins its free neighbours, and before new pages are mapped free ones
// go back to the system, unless all of them together are at most `slack` of the largest use so far more than that use.
// A step that repeats the sizes of the one before maps nothing. Any thread may call any function.
class HostMemoryPool {
 public:
  // Blocks are whole pages.
  static constexpr std::size_t page = 4096;
  // 1/32: 3 %.
  static constexpr std::size_t slack = 32;

  HostMemoryPool() = default;
  HostMemoryPool(const HostMemoryPool&) = delete;
  HostMemoryPool& operator=(const HostMemoryPool&) = delete;
  // Returns free pieces to the system. Blocks in use stay valid, and can no longer be freed.
  ~HostMemoryPool();

  // A block of at least `bytes` > 0, aligned to pages, with any contents; null where the system has no memory even
  // after all free pieces have been given back.
  void* take(std::size_t bytes);
  // Returns whether `block` came from take(): if not, nothing happens.
  bool give(void* block);
  // Returns all free pieces to the system. What is in use is the largest use from then on.
  void trim();

  // In bytes, of whole pages.
  struct Use {
    std::size_t used = 0;    // by blocks that have been taken
    std::size_t peak = 0;    // the largest `used` so far
    std::size_t mapped = 0;  // used and free
  };
  Use use() const;

 private:
  using Address = std::byte*;

  // All with access_ held.
  Address cut_from_free(std::size_t bytes);
  Address map_new(std::size_t bytes);
  void unmap_free(std::size_t bytes);
  void add_free(Address begin, std::size_t bytes);
  void remove_free(std::map<Address, std::size_t>::iterator piece);

  mutable std::mutex access_;
  std::map<Address, std::size_t> free_;                     // bytes by begin; no two pieces touch
  std::set<std::pair<std::size_t, Address>> free_by_size_;  // the same pieces
  std::unordered_map<void*, std::size_t> taken_;            // bytes
  Use use_;
};

}  // namespace llmtrain
