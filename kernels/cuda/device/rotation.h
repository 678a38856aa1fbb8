// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/packs.h"

namespace llmtrain::kernels {

// Rotates pairs (low, high) of elements (kernels/rope.h) in fp32 and rounds once; −1 rotates back. `cosine` and `sine`
// are those of the pairs.
template <class T, int size>
__device__ __forceinline__ void rotate_pairs(Pack<T, size>& low, Pack<T, size>& high, const float* cosine,
                                             const float* sine, float direction) {
  float c[size], s[size];
  load_floats<size>(cosine, c);
  load_floats<size>(sine, s);
#pragma unroll
  for (int k = 0; k < size; ++k) {
    const float x = widened(low.of[k]), y = widened(high.of[k]), turn = direction * s[k];
    low.of[k] = narrowed<T>(x * c[k] - y * turn);
    high.of[k] = narrowed<T>(y * c[k] + x * turn);
  }
}

}  // namespace llmtrain::kernels
