// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace llmtrain {

// A block of memory, and which of its bytes are in use. Any thread may call any function.
class ArenaMemory {
 public:
  // Null where the system has no memory. It can be found by release() from then on.
  static std::shared_ptr<ArenaMemory> map(std::size_t bytes);
  ArenaMemory(const ArenaMemory&) = delete;
  ArenaMemory& operator=(const ArenaMemory&) = delete;
  ~ArenaMemory();

  // The bytes from `offset` on, which are in use then; null if any of them is, or lies beyond the block.
  void* take(std::size_t offset, std::size_t bytes);
  bool is_unused() const;
  // Returns the pages to the system, if nothing is in use.
  void forget();
  // Nothing is taken any more: the block is returned to the system once nothing is in use.
  static void close(std::shared_ptr<ArenaMemory> memory);

  // Frees what was taken of any block. Returns whether `address` was.
  static bool release(void* address);
  // For tests: bytes are filled with ones when they are taken and when they are freed, which are NaN in all types of
  // floating point.
  static void poison(bool fills);

 private:
  ArenaMemory(std::byte* begin, std::size_t bytes) : begin_(begin), bytes_(bytes) {}
  bool holds(const std::byte* address) const { return address >= begin_ && address < begin_ + bytes_; }

  std::byte* begin_;
  std::size_t bytes_;
  mutable std::mutex access_;
  std::map<std::size_t, std::size_t> used_;  // bytes by offset
  bool is_closed_ = false;
};

}  // namespace llmtrain
