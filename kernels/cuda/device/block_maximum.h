// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/language.h"

namespace llmtrain::kernels {

// The largest of all threads' values, in each of them; a NaN is left out. All threads of a block of `threads` must call
// it; they are whole warps.
template <int threads>
__device__ __forceinline__ float block_maximum(float value) {
  for (int bits = 16; bits > 0; bits /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffU, value, bits));
  if constexpr (threads > 32) {
    SHARED_ARRAY(float, largest, threads / 32);
    __syncthreads();  // some may still read those of the call before
    if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = value;
    __syncthreads();
    value = largest[0];
    for (int warp = 1; warp < threads / 32; ++warp) value = fmaxf(value, largest[warp]);
  }
  return value;
}

}  // namespace llmtrain::kernels
