// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/cpu_allocator.h"

#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "parallel/device/arena_memory.h"
#include "parallel/device/host_memory_pool.h"
#include "parallel/device/step_arena.h"

namespace llmtrain {
namespace {

#if defined(LLMTRAIN_SANITIZED)
constexpr std::size_t smallest_pooled = std::numeric_limits<std::size_t>::max();
#else
// Whole pages would make smaller tensors larger by more than a sixteenth, and malloc() loses little with them.
constexpr std::size_t smallest_pooled = std::size_t{64} << 10;
#endif

// Never destroyed: tensors may outlive every other object of the program.
HostMemoryPool& pool() {
  static HostMemoryPool* const only = new HostMemoryPool;
  return *only;
}

// The one function for all blocks, as LibTorch wants it: only some addresses of malloc() have to be looked up.
void release(void* memory) {
  if (memory == nullptr) return;
  c10::profiledCPUMemoryReporter().Delete(memory);
  if (StepArena* const arena = StepArena::of_thread()) arena->note_freed(memory);
  if (ArenaMemory::release(memory)) return;
  const bool is_page = reinterpret_cast<std::uintptr_t>(memory) % HostMemoryPool::page == 0;
  if (!is_page || !pool().give(memory)) c10::free_cpu(memory);
}

class CpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    StepArena* const arena = bytes < StepArena::smallest ? nullptr : StepArena::of_thread();
    void* memory = arena == nullptr ? nullptr : arena->take(bytes);
    if (memory == nullptr && bytes >= smallest_pooled) memory = pool().take(bytes);
    // Also where there is no memory: it throws, with LibTorch's message.
    if (memory == nullptr) memory = c10::alloc_cpu(bytes);
    if (arena != nullptr) arena->note_taken(memory);
    c10::profiledCPUMemoryReporter().New(memory, bytes);
    return {memory, memory, &release, c10::kCPU};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &release; }

  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    default_copy_data(target, source, bytes);
  }
};

void install() {
  static CpuAllocator* const only = [] {
    auto* const allocator = new CpuAllocator;
    c10::SetCPUAllocator(allocator);
    return allocator;
  }();
  static_cast<void>(only);
}

}  // namespace

void pool_cpu_tensors() {
#if !defined(LLMTRAIN_SANITIZED)
  install();
#endif
}

void serve_arenas() { install(); }

void trim_cpu_tensors() { pool().trim(); }

}  // namespace llmtrain
