// SPDX-License-Identifier: Apache-2.0
// Flat arrays of equally many elements, of which each thread takes packs: as many elements of each array as 16 bytes
// hold floats. What is in front of the first pack and behind the last one is taken by itself.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/device/launch.h"

namespace llmtrain::kernels {

constexpr int flat_pack = pack_size<float>, flat_threads = 256;

// Elements in front of the packs, packs, elements behind them.
struct FlatPacks {
  std::int64_t before = 0, packs = 0, behind = 0;
};

// Calls work(first element, std::integral_constant<int, elements>) for this thread's packs and single elements.
template <int size, class Work>
__device__ __forceinline__ void over_flat(const FlatPacks& p, Work work) {
  const std::int64_t own = std::int64_t{blockIdx.x} * flat_threads + threadIdx.x;
  const std::int64_t all = std::int64_t{gridDim.x} * flat_threads, packs_end = p.before + p.packs * size;
  if (own < p.before) work(own, std::integral_constant<int, 1>{});
  if (own < p.behind) work(packs_end + own, std::integral_constant<int, 1>{});
  for (std::int64_t i = own; i < p.packs; i += all) work(p.before + i * size, std::integral_constant<int, size>{});
}

template <int size, class T>
__device__ __forceinline__ Pack<float, size> load_widened(const T* from) {
  const auto loaded = *reinterpret_cast<const Pack<T, size>*>(from);
  Pack<float, size> values;
#pragma unroll
  for (int k = 0; k < size; ++k) values.of[k] = widened(loaded.of[k]);
  return values;
}

__device__ __forceinline__ unsigned bits_of(__nv_bfloat16 x) { return __bfloat16_as_ushort(x); }
__device__ __forceinline__ unsigned bits_of(__half x) { return __half_as_ushort(x); }

template <class T, int size>
__device__ __forceinline__ void store_narrowed(T* to, const Pack<float, size>& values) {
  if constexpr (sizeof(T) == sizeof(float)) {
    *reinterpret_cast<Pack<float, size>*>(to) = values;
  } else if constexpr (size == 1) {
    *to = narrowed<T>(values.of[0]);
  } else {
    static_assert(size == 4);
    // At once, which nvcc makes of no struct of 8 bytes.
    std::uint64_t bits = 0;
#pragma unroll
    for (int k = 0; k < size; ++k) bits |= std::uint64_t{bits_of(narrowed<T>(values.of[k]))} << 16 * k;
    *reinterpret_cast<std::uint64_t*>(to) = bits;
  }
}

// By how many elements an array begins behind the boundary of a pack.
template <class T>
std::uintptr_t skew_of(const T* begin) {
  return reinterpret_cast<std::uintptr_t>(begin) / sizeof(T) % flat_pack;
}

// Calls work(std::integral_constant<int, size>, packs) with what a kernel may take at once: packs where all arrays
// begin at the same place behind the boundary of one, as parts of flat memory need not, else single elements. An array
// that is null begins anywhere.
template <class Work, class First, class... Others>
void with_flat_packs(std::int64_t n, Work work, First* first, Others*... others) {
  const std::uintptr_t skew = skew_of(first);
  if (!(... && (others == nullptr || skew_of(others) == skew)))
    return work(std::integral_constant<int, 1>{}, FlatPacks{0, n, 0});
  FlatPacks p;
  p.before = std::min<std::int64_t>((flat_pack - static_cast<std::int64_t>(skew)) % flat_pack, n);
  p.packs = (n - p.before) / flat_pack;
  p.behind = n - p.before - p.packs * flat_pack;
  work(std::integral_constant<int, flat_pack>{}, p);
}

inline LaunchShape shape_of(const FlatPacks& p) {
  constexpr std::int64_t most_blocks = std::int64_t{1} << 20;
  const std::int64_t blocks = std::clamp<std::int64_t>((p.packs + flat_threads - 1) / flat_threads, 1, most_blocks);
  return {static_cast<unsigned>(blocks), static_cast<unsigned>(flat_threads)};
}

// Launches a kernel over arrays of n elements (launch()), whose parameters get the packs. Of the kernels that take one
// or flat_pack elements at once, kernel_of(std::integral_constant<int, elements>) is the one.
template <class Parameters, class KernelOf, class... Arrays>
void launch_flat(void* stream, const char* name, KernelOf kernel_of, std::int64_t n, Parameters p,
                 std::initializer_list<MemoryUse> memory, Arrays*... arrays) {
  with_flat_packs(
      n,
      [&](auto size, const FlatPacks& packs) {
        p.packs = packs;
        launch(stream, name, kernel_of(size), shape_of(packs), p, memory);
      },
      arrays...);
}

}  // namespace llmtrain::kernels
