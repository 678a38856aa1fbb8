// SPDX-License-Identifier: Apache-2.0
// Arrays that are cast to FP8 as they are, or from what they are stored as.
#pragma once

#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/fp8/fp8_kernels.h"

namespace llmtrain::kernels {

// What element `first` and those up to the end of its part are multiplied by; nothing where x is as it is.
template <bool is_stored>
__device__ __forceinline__ float unit_at(const Fp8Stored& stored, std::int64_t first) {
  if constexpr (!is_stored) return 1;
  int part = 0;
#pragma unroll
  for (int i = 0; i < most_fp8_stored_parts - 1; ++i) part += first >= stored.ends[i] ? 1 : 0;
  return 1 / stored.scales[part];
}

template <bool is_stored, class T>
__device__ __forceinline__ float value_of(T x, float unit) {
  if constexpr (is_stored) return widened(narrowed<__nv_bfloat16>(widened(x) * unit));
  return widened(x);
}

}  // namespace llmtrain::kernels
