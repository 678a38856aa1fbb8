// SPDX-License-Identifier: Apache-2.0
// Runs kernels on the calling thread: a fiber per thread of a block, one block after another.
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>

namespace cuda_on_host {

// What a kernel or its launch does wrong: names the line, the thread and the block.
struct KernelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Options {
  // Decides the order of blocks and threads; 0: that of their numbers.
  std::uint64_t seed = 1;
  std::size_t shared_limit = 227 * 1024;  // bytes per block, as on sm_90
  // So many blocks at the beginning and end of each grid run alone, for arrays of which nobody has the memory. Both 0:
  // all run.
  std::size_t first_blocks = 0, last_blocks = 0;
};
extern Options options;

// Since the process started.
struct Counts {
  std::uint64_t launches = 0, blocks = 0, threads = 0, switches = 0;
};
extern Counts counts;

// Calls `thread` once for every thread of the grid and returns when all have ended. Throws KernelError. Launches of
// several host threads run one after another.
void launch(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& thread);

}  // namespace cuda_on_host
