// SPDX-License-Identifier: Apache-2.0
// How kernels over FP8 read arrays: a thread takes as many elements at once as fill 16 bytes with codes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/device/fp8_elements.h"
#include "kernels/cuda/device/packs.h"
#include "kernels/cuda/fp8/fp8_kernels.h"

namespace llmtrain::kernels {

constexpr int fp8_threads = 256, span = 16;

// A span of fewer elements than there can be goes on with zeros.
template <class T, int size = span>
struct Span {
  static constexpr int at_once = size < pack_size<T> ? size : pack_size<T>, packs = size / at_once;
  using Elements = Pack<T, at_once>;
  Elements of[packs];

  __device__ __forceinline__ T& operator[](int i) { return of[i / at_once].of[i % at_once]; }

  __device__ __forceinline__ void load(const T* from, int count, bool is_packed) {
    if (is_packed && count == size) {
#pragma unroll
      for (int i = 0; i < packs; ++i) of[i] = reinterpret_cast<const Elements*>(from)[i];
    } else {
#pragma unroll
      for (int i = 0; i < size; ++i) (*this)[i] = i < count ? from[i] : T{};
    }
  }

  __device__ __forceinline__ void store(T* to, int count, bool is_packed) {
    if (is_packed && count == size) {
#pragma unroll
      for (int i = 0; i < packs; ++i) reinterpret_cast<Elements*>(to)[i] = of[i];
    } else {
#pragma unroll
      for (int i = 0; i < size; ++i)
        if (i < count) to[i] = (*this)[i];
    }
  }
};

// Calls work(row, first element, elements) for this thread's spans, of `size` elements, of a matrix. Where a span is
// written it should be one pack, so that threads side by side write side by side.
template <int size = span, class Work>
__device__ __forceinline__ void over_spans(std::int64_t rows, std::int64_t columns, Work work) {
  const std::int64_t spans = (columns + size - 1) / size;
  for (std::int64_t i = std::int64_t{blockIdx.x} * fp8_threads + threadIdx.x; i < rows * spans;
       i += std::int64_t{gridDim.x} * fp8_threads) {
    const std::int64_t row = rows == 1 ? 0 : i / spans, column = (i - row * spans) * size;
    work(row, row * columns + column, static_cast<int>(min(columns - column, std::int64_t{size})));
  }
}

// The largest of what the blocks before have found, in all fp8_threads.
__device__ __forceinline__ unsigned joined(const unsigned* partials, std::int64_t count) {
  unsigned most = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += fp8_threads) most = max(most, partials[i]);
  return block_largest<fp8_threads>(most);
}

// Whether all rows begin at a multiple of 16 bytes, in each of the arrays.
template <class... Pointers>
bool are_packed(std::int64_t rows, std::int64_t columns, Pointers... pointers) {
  return (rows == 1 || columns % span == 0) && are_aligned_to_packs(pointers...);
}

inline unsigned blocks_of(std::int64_t rows, std::int64_t columns) {
  const std::int64_t spans = rows * ((columns + span - 1) / span);
  return static_cast<unsigned>(std::min<std::int64_t>((spans + fp8_threads - 1) / fp8_threads, most_fp8_partials));
}

inline std::size_t size_of(std::int64_t count) { return static_cast<std::size_t>(count); }

}  // namespace llmtrain::kernels
