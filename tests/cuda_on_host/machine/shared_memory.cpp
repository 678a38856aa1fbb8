// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_on_host/machine/shared_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

#include "tests/cuda_on_host/machine/launch.h"
#include "tests/cuda_on_host/machine/machine.h"
#include "tests/cuda_on_host/machine/sanitizers.h"

namespace cuda_on_host {
namespace {

constexpr unsigned char poison = 0xFF, guard = 0xA5;

// The address sanitizer watches the end of each allocation, and would take a guard for a part of it.
constexpr std::size_t guard_bytes = address_sanitizer ? 0 : 64;

// Not std::memset(), whose interceptor would tell the thread sanitizer.
void fill(std::byte* memory, std::size_t bytes, unsigned char value) {
  auto* to = reinterpret_cast<volatile unsigned char*>(memory);
  for (std::size_t i = 0; i < bytes; ++i) to[i] = value;
}

void poison_array(std::byte* memory, std::size_t bytes) {
  fill(memory, bytes, poison);
  fill(memory + bytes, guard_bytes, guard);
}

bool is_overrun(const std::byte* memory, std::size_t bytes) {
  return std::any_of(memory + bytes, memory + bytes + guard_bytes, [](std::byte b) { return b != std::byte{guard}; });
}

// The thread sanitizer knows no order of blocks, and would find them racing for memory that two of them use: there each
// block has its own, never used again. Mapped on the scheduler's side, as the sanitizer takes mmap() for a write.
struct Arena {
  std::byte* memory = nullptr;
  std::size_t left = 0;
};
Arena arena;

constexpr std::size_t arena_bytes = std::size_t{64} << 20, most_of_a_block = std::size_t{512} << 10;

std::byte* from_arena(std::size_t bytes) {
  const std::size_t whole = (bytes + guard_bytes + 127) / 128 * 128;
  std::byte* const memory = arena.memory;
  arena.memory += whole;
  arena.left -= whole;
  return memory;
}

std::byte* new_array(std::size_t bytes, std::size_t alignment) {
  if (thread_sanitizer) return from_arena(bytes);
  void* memory = nullptr;
  if (::posix_memalign(&memory, std::max<std::size_t>(alignment, 16), bytes + guard_bytes) != 0) std::abort();
  return static_cast<std::byte*>(memory);
}

void renew_arena() {
  // Arrays of other blocks: theirs alone.
  machine.shared.clear();
  machine.shared_bytes = 0;
  machine.dynamic = nullptr;
  if (arena.left >= most_of_a_block) return;
  void* memory =
      ::mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  arena = {static_cast<std::byte*>(memory), arena_bytes};
  __tsan_release(&machine.launch_begins);
}

}  // namespace

void* shared_memory(const void* tag, std::size_t bytes, std::size_t alignment, const Place& place) {
  for (const SharedArray& array : machine.shared)
    if (array.tag == tag) return array.memory;
  machine.shared_bytes += bytes;
  if (machine.shared_bytes + machine.dynamic_bytes > options.shared_limit)
    fail("more shared memory than a block may have", place);
  std::byte* const memory = new_array(bytes, alignment);
  poison_array(memory, bytes);
  machine.shared.push_back({tag, bytes, memory});
  return memory;
}

void* dynamic_shared_memory() { return machine.dynamic; }

void renew_shared_memory() {
  machine.shared.reserve(64);  // not while a fiber runs
  if (thread_sanitizer) renew_arena();
  if (machine.dynamic == nullptr && machine.dynamic_bytes > 0) machine.dynamic = new_array(machine.dynamic_bytes, 16);
  for (const SharedArray& array : machine.shared) poison_array(array.memory, array.bytes);
  if (machine.dynamic != nullptr) poison_array(machine.dynamic, machine.dynamic_bytes);
}

const char* overrun_of_shared_memory() {
  for (const SharedArray& array : machine.shared)
    if (is_overrun(array.memory, array.bytes)) return "a thread writes behind the end of an array in shared memory";
  if (machine.dynamic != nullptr && is_overrun(machine.dynamic, machine.dynamic_bytes))
    return "a thread writes behind the end of the shared memory that the launch asked for";
  return nullptr;
}

void free_shared_memory() {
  if (!thread_sanitizer) {
    for (const SharedArray& array : machine.shared) std::free(array.memory);
    std::free(machine.dynamic);
  }
  machine.shared.clear();
  machine.shared_bytes = 0;
  machine.dynamic = nullptr;
}

}  // namespace cuda_on_host
