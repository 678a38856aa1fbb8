// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/language.h"

namespace llmtrain::kernels {

// The sum of a warp's values, in each of its threads, all of which must call it; the order is fixed, here and below.
template <class Number>
__device__ __forceinline__ Number warp_sum(Number value) {
  for (int bits = 16; bits > 0; bits /= 2) value += __shfl_xor_sync(0xffffffffU, value, bits);
  return value;
}

// The sum of all threads' values, in each of them. All threads of the block must call it; they are whole warps.
template <class Number>
__device__ __forceinline__ Number block_sum(Number value) {
  value = warp_sum(value);
  const unsigned warps = blockDim.x / 32;
  if (warps == 1) return value;
  SHARED_ARRAY(Number, partial, 32);
  __syncthreads();  // some may still read the sums of the call before
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
  for (unsigned warp = 0; warp < warps; ++warp) value += partial[warp];
  return value;
}

}  // namespace llmtrain::kernels
