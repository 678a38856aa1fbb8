// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_on_host/machine/launch.h"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/cuda_on_host/machine/machine.h"
#include "tests/cuda_on_host/machine/sanitizers.h"
#include "tests/cuda_on_host/machine/shared_memory.h"

namespace cuda_on_host {

Index thread_index, block_index;
dim3 block_size, grid_size;
Options options;
Counts counts;
Machine& machine = *new Machine;  // never destroyed: threads that hang refer to it

namespace {

std::mutex one_launch;

void check(dim3 grid, dim3 block, std::size_t shared_bytes) {
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || block.z > 64) throw KernelError("a block has 1 to 1024 threads, 64 along z");
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) throw KernelError("a grid without blocks");
  if (grid.x > 0x7fffffffU || grid.y > 65535 || grid.z > 65535)
    throw KernelError("a grid has at most 2147483647, 65535 and 65535 blocks along x, y and z");
  if (shared_bytes > options.shared_limit) throw KernelError("more dynamic shared memory than a block may have");
}

// The numbers of the blocks that run, in any order.
std::vector<std::size_t> numbers_of_blocks() {
  const std::size_t all = std::size_t{grid_size.x} * grid_size.y * grid_size.z;
  const std::size_t first = options.first_blocks, edges = first + options.last_blocks;
  std::vector<std::size_t> numbers(edges == 0 ? all : std::min(all, edges));
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  if (numbers.size() < all)
    std::iota(numbers.begin() + static_cast<std::ptrdiff_t>(first), numbers.end(), all - options.last_blocks);
  shuffle(numbers);
  return numbers;
}

void run_blocks(std::size_t threads) {
  for (const std::size_t number : numbers_of_blocks()) {
    block_index = {static_cast<unsigned>(number % grid_size.x),
                   static_cast<unsigned>(number / grid_size.x % grid_size.y),
                   static_cast<unsigned>(number / grid_size.x / grid_size.y)};
    run_block(threads);
    if (!machine.failure.empty()) return;
  }
}

}  // namespace

void launch(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& thread) {
  const std::lock_guard lock(one_launch);
  check(grid, block, shared_bytes);
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  ++counts.launches;
  block_size = block;
  grid_size = grid;
  machine.thread = &thread;
  machine.in_order = options.seed == 0;
  machine.random = options.seed * 0x9E3779B97F4A7C15ULL | 1;
  machine.dynamic_bytes = shared_bytes;
  while (machine.fibers.size() < threads) machine.fibers.push_back(std::make_unique<Fiber>());
  machine.scheduler_fiber = __tsan_get_current_fiber();
  __tsan_release(&machine.launch_begins);
  run_blocks(threads);
  for (Fiber* fiber : machine.of_thread)
    if (!fiber->has_ended) abandon(*fiber);
  __tsan_acquire(&machine.launch_ends);
  free_shared_memory();
  if (!machine.failure.empty()) throw KernelError(std::exchange(machine.failure, {}));
}

}  // namespace cuda_on_host
