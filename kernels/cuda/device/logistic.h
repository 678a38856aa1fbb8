// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/elements.h"

namespace llmtrain::kernels {

// Functions of results in type T: what approximate ones err by vanishes in the rounding to 16 bits.

template <class T>
__device__ __forceinline__ float exponential(float x) {
  return sizeof(T) == sizeof(float) ? expf(x) : __expf(x);
}

// 1/(1 + e^−x).
template <class T>
__device__ __forceinline__ float logistic(float x) {
  const float divisor = 1 + exponential<T>(-x);
  if constexpr (sizeof(T) == sizeof(float)) {
    return 1 / divisor;
  } else {
    return __fdividef(1, divisor);
  }
}

}  // namespace llmtrain::kernels
