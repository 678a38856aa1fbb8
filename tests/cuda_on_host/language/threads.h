// SPDX-License-Identifier: Apache-2.0
// The numbers of the running thread and of its block, and the barrier of a block.
#pragma once

#include <vector_types.h>

#include "tests/cuda_on_host/language/place.h"

namespace cuda_on_host {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

// Plain variables, as fibers run one at a time: set before each continues.
extern Index thread_index, block_index;
extern dim3 block_size, grid_size;

// Waits for all threads of the block that have not ended, as on a device since Volta.
void block_barrier(const Place& place);

}  // namespace cuda_on_host

#define threadIdx cuda_on_host::thread_index
#define blockIdx cuda_on_host::block_index
#define blockDim cuda_on_host::block_size
#define gridDim cuda_on_host::grid_size
constexpr int warpSize = 32;

inline void __syncthreads(cuda_on_host::Place place = cuda_on_host::Place::here()) {
  cuda_on_host::block_barrier(place);
}
