// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/language.h"

namespace llmtrain::kernels {

// The sum of all threads' values, in each of them; the order is fixed. All threads of a block of `threads` must call
// it; they are whole warps.
template <int threads>
__device__ __forceinline__ float block_sum(float value) {
  for (int bits = 16; bits > 0; bits /= 2) value += __shfl_xor_sync(0xffffffffU, value, bits);
  if constexpr (threads > 32) {
    SHARED_ARRAY(float, partial, threads / 32);
    __syncthreads();  // some may still read the sums of the call before
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0;
    for (int warp = 0; warp < threads / 32; ++warp) value += partial[warp];
  }
  return value;
}

}  // namespace llmtrain::kernels
