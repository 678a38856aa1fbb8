// SPDX-License-Identifier: Apache-2.0
// FP8 in kernels, two numbers at a time, which is what GPUs with units for it convert.
#pragma once

#include "kernels/cuda/device/fp8_format.h"
#include "kernels/cuda/device/language.h"

namespace llmtrain::kernels {

// A yes or no among a kernel's parameters, which are to have no gaps: where kernels run on a processor, what lies in
// one could look like an address, of which there others may take the place.
using Flag = std::int64_t;

// The codes of two numbers, the first one in the low byte.
using Fp8Pair = __nv_fp8x2_storage_t;

template <Fp8Format format>
constexpr __nv_fp8_interpretation_t fp8_kind = format == Fp8Format::e4m3 ? __NV_E4M3 : __NV_E5M2;

// Saturated and rounded to nearest, ties to even; NaN stays NaN.
template <Fp8Format format>
__device__ __forceinline__ Fp8Pair fp8_pair(float first, float second) {
  return __nv_cvt_float2_to_fp8x2(make_float2(first, second), __NV_SATFINITE, fp8_kind<format>);
}

// Exact.
template <Fp8Format format>
__device__ __forceinline__ float2 widened_pair(Fp8Pair pair) {
  const __half2_raw both = __nv_cvt_fp8x2_to_halfraw2(pair, fp8_kind<format>);
  return make_float2(__half2float(__half(__half_raw{both.x})), __half2float(__half(__half_raw{both.y})));
}

// |x| as bits, which order as the magnitudes do; those of a NaN are the largest.
__device__ __forceinline__ unsigned magnitude_bits(float x) { return __float_as_uint(x) & 0x7fffffffU; }

// The largest of all threads' bits, in each of them. All threads of a block of `threads` must call it; they are whole
// warps.
template <int threads>
__device__ __forceinline__ unsigned block_largest(unsigned bits) {
  bits = __reduce_max_sync(0xffffffffU, bits);
  if constexpr (threads > 32) {
    SHARED_ARRAY(unsigned, largest, threads / 32);
    __syncthreads();  // some may still read those of the call before
    if (threadIdx.x % 32 == 0) largest[threadIdx.x / 32] = bits;
    __syncthreads();
    for (int warp = 0; warp < threads / 32; ++warp) bits = max(bits, largest[warp]);
  }
  return bits;
}

}  // namespace llmtrain::kernels
