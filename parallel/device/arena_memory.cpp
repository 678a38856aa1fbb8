// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/arena_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <iterator>
#include <shared_mutex>
#include <vector>

namespace llmtrain {
namespace {

// All blocks of the process. Never destroyed: tensors may outlive every other object of the program.
struct ArenaBlocks {
  std::shared_mutex access;
  std::vector<std::shared_ptr<ArenaMemory>> all;
  // Changed with them: where there is no block, frees of other memory take no lock.
  std::atomic<std::size_t> count = 0;
};

ArenaBlocks& arena_blocks() {
  static ArenaBlocks* const only = new ArenaBlocks;
  return *only;
}

std::atomic<bool> fills_with_ones = false;

void fill(std::byte* begin, std::size_t bytes) {
  if (fills_with_ones) std::memset(begin, 0xff, bytes);
}

void forget_block(const ArenaMemory* memory) {
  std::shared_ptr<ArenaMemory> last;
  const std::unique_lock lock(arena_blocks().access);
  auto& all = arena_blocks().all;
  const auto found = std::ranges::find(all, memory, &std::shared_ptr<ArenaMemory>::get);
  if (found == all.end()) return;
  last = std::move(*found);
  all.erase(found);
  --arena_blocks().count;
}

}  // namespace

std::shared_ptr<ArenaMemory> ArenaMemory::map(std::size_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  // A hint, as for other large blocks.
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  std::shared_ptr<ArenaMemory> made(new ArenaMemory(static_cast<std::byte*>(memory), bytes));
  const std::unique_lock lock(arena_blocks().access);
  arena_blocks().all.push_back(made);
  ++arena_blocks().count;
  return made;
}

ArenaMemory::~ArenaMemory() { ::munmap(begin_, bytes_); }

void* ArenaMemory::take(std::size_t offset, std::size_t bytes) {
  const std::lock_guard lock(access_);
  if (offset + bytes > bytes_) return nullptr;
  const auto next = used_.lower_bound(offset);
  if (next != used_.end() && next->first < offset + bytes) return nullptr;
  if (next != used_.begin() && std::prev(next)->first + std::prev(next)->second > offset) return nullptr;
  used_.emplace_hint(next, offset, bytes);
  fill(begin_ + offset, bytes);
  return begin_ + offset;
}

bool ArenaMemory::is_unused() const {
  const std::lock_guard lock(access_);
  return used_.empty();
}

void ArenaMemory::forget() {
  const std::lock_guard lock(access_);
  if (used_.empty()) ::madvise(begin_, bytes_, MADV_DONTNEED);
}

void ArenaMemory::close(std::shared_ptr<ArenaMemory> memory) {
  bool is_last = false;
  {
    const std::lock_guard lock(memory->access_);
    memory->is_closed_ = true;
    is_last = memory->used_.empty();
  }
  if (is_last) forget_block(memory.get());
}

bool ArenaMemory::release(void* address) {
  if (arena_blocks().count == 0) return false;
  auto* const place = static_cast<std::byte*>(address);
  std::shared_ptr<ArenaMemory> owner;
  {
    const std::shared_lock lock(arena_blocks().access);
    for (const auto& each : arena_blocks().all)
      if (each->holds(place)) owner = each;
  }
  if (owner == nullptr) return false;
  bool is_last = false;
  {
    const std::lock_guard lock(owner->access_);
    const auto found = owner->used_.find(static_cast<std::size_t>(place - owner->begin_));
    if (found == owner->used_.end()) return false;
    fill(place, found->second);
    owner->used_.erase(found);
    is_last = owner->is_closed_ && owner->used_.empty();
  }
  if (is_last) forget_block(owner.get());
  return true;
}

void ArenaMemory::poison(bool fills) { fills_with_ones = fills; }

}  // namespace llmtrain
