// SPDX-License-Identifier: Apache-2.0
// Where packs may be, and fp32 numbers that go with packs of narrower elements.
#pragma once

#include "kernels/cuda/device/elements.h"

namespace llmtrain::kernels {

// Null is aligned.
template <class... Pointers>
bool are_aligned_to_packs(Pointers... pointers) {
  return (... && (reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0));
}

// As many floats as 16 bytes hold, or `size`: accesses of more would need more alignment than rows have.
template <int size>
constexpr int floats_at_once = size < pack_size<float> ? size : pack_size<float>;

template <int size>
__device__ __forceinline__ void load_floats(const float* from, float* to) {
  constexpr int step = floats_at_once<size>;
#pragma unroll
  for (int i = 0; i < size; i += step) {
    const auto loaded = *reinterpret_cast<const Pack<float, step>*>(from + i);
#pragma unroll
    for (int k = 0; k < step; ++k) to[i + k] = loaded.of[k];
  }
}

template <int size>
__device__ __forceinline__ void store_floats(const float* from, float* to) {
  constexpr int step = floats_at_once<size>;
#pragma unroll
  for (int i = 0; i < size; i += step) {
    Pack<float, step> stored;
#pragma unroll
    for (int k = 0; k < step; ++k) stored.of[k] = from[i + k];
    *reinterpret_cast<Pack<float, step>*>(to + i) = stored;
  }
}

}  // namespace llmtrain::kernels
