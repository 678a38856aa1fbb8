// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/host_memory_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

namespace llmtrain {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + HostMemoryPool::page - 1) / HostMemoryPool::page * HostMemoryPool::page;
}

}  // namespace

HostMemoryPool::~HostMemoryPool() { unmap_free(use_.mapped); }

void* HostMemoryPool::take(std::size_t bytes) {
  const std::size_t pages = whole_pages(bytes);
  if (pages < bytes) return nullptr;
  const std::lock_guard lock(access_);
  use_.used += pages;
  const std::size_t peak_before = use_.peak;
  use_.peak = std::max(use_.peak, use_.used);
  Address block = cut_from_free(pages);
  if (block == nullptr) block = map_new(pages);
  if (block == nullptr) {
    use_.used -= pages;
    use_.peak = peak_before;
    return nullptr;
  }
  taken_.emplace(block, pages);
  return block;
}

bool HostMemoryPool::give(void* block) {
  const std::lock_guard lock(access_);
  const auto found = taken_.find(block);
  if (found == taken_.end()) return false;
  use_.used -= found->second;
  add_free(static_cast<Address>(block), found->second);
  taken_.erase(found);
  return true;
}

void HostMemoryPool::trim() {
  const std::lock_guard lock(access_);
  unmap_free(use_.mapped);
  use_.peak = use_.used;
}

HostMemoryPool::Use HostMemoryPool::use() const {
  const std::lock_guard lock(access_);
  return use_;
}

HostMemoryPool::Address HostMemoryPool::cut_from_free(std::size_t bytes) {
  const auto smallest = free_by_size_.lower_bound({bytes, nullptr});
  if (smallest == free_by_size_.end()) return nullptr;
  const auto [size, begin] = *smallest;
  remove_free(free_.find(begin));
  if (size > bytes) add_free(begin + bytes, size - bytes);
  return begin;
}

HostMemoryPool::Address HostMemoryPool::map_new(std::size_t bytes) {
  const std::size_t most = use_.peak + use_.peak / slack;
  if (use_.mapped + bytes > most) unmap_free(use_.mapped + bytes - most);
  const auto map = [&] { return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); };
  void* memory = map();
  if (memory == MAP_FAILED) {
    unmap_free(use_.mapped);
    memory = map();
  }
  if (memory == MAP_FAILED) return nullptr;
  // A hint: where the system does not grant huge pages, ordinary ones serve.
  if (bytes >= huge_page) ::madvise(memory, bytes, MADV_HUGEPAGE);
  use_.mapped += bytes;
  return static_cast<Address>(memory);
}

// At least so many bytes, or all that are free; of the largest pieces the ends, so that they hold large blocks still.
void HostMemoryPool::unmap_free(std::size_t bytes) {
  std::size_t left = whole_pages(bytes);
  while (left > 0 && !free_by_size_.empty()) {
    const auto [size, begin] = *std::prev(free_by_size_.end());
    const std::size_t cut = std::min(size, left);
    remove_free(free_.find(begin));
    if (size > cut) add_free(begin, size - cut);
    ::munmap(begin + (size - cut), cut);
    use_.mapped -= cut;
    left -= cut;
  }
}

void HostMemoryPool::add_free(Address begin, std::size_t bytes) {
  const auto after = free_.lower_bound(begin);
  if (after != free_.end() && begin + bytes == after->first) {
    bytes += after->second;
    remove_free(after);
  }
  const auto next = free_.lower_bound(begin);
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      begin = before->first;
      bytes += before->second;
      remove_free(before);
    }
  }
  free_.emplace(begin, bytes);
  free_by_size_.emplace(bytes, begin);
}

void HostMemoryPool::remove_free(std::map<Address, std::size_t>::iterator piece) {
  free_by_size_.erase({piece->second, piece->first});
  free_.erase(piece);
}

}  // namespace llmtrain
