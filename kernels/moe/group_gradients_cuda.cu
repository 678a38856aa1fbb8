// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/device/packs.h"
#include "kernels/cuda/moe/group_gradient_kernels.h"

namespace llmtrain::kernels {
namespace {

constexpr int threads = 256;

template <class T, class Gradient>
struct GroupGradients {
  const T* products;
  const int* ends;
  Gradient* gradients;
  std::int64_t size;  // elements of an expert
  bool adds;
};

template <int size>
__device__ __forceinline__ void load_gradients(const float* from, float* to) {
  load_floats<size>(from, to);
}
template <int size, class T>
__device__ __forceinline__ void load_gradients(const T* from, float* to) {
  const auto loaded = *reinterpret_cast<const Pack<T, size>*>(from);
#pragma unroll
  for (int k = 0; k < size; ++k) to[k] = widened(loaded.of[k]);
}

template <int size>
__device__ __forceinline__ void store_gradients(const float* from, float* to) {
  store_floats<size>(from, to);
}
template <int size, class T>
__device__ __forceinline__ void store_gradients(const float* from, T* to) {
  Pack<T, size> stored;
#pragma unroll
  for (int k = 0; k < size; ++k) stored.of[k] = narrowed<T>(from[k]);
  *reinterpret_cast<Pack<T, size>*>(to) = stored;
}

// A row of blocks for each expert.
template <class T, class Gradient, int size>
__global__ void __launch_bounds__(threads) group_gradients_kernel(GroupGradients<T, Gradient> p) {
  const unsigned expert = blockIdx.y;
  const bool has_rows = p.ends[expert] > (expert > 0 ? p.ends[expert - 1] : 0);
  if (!has_rows && p.adds) return;
  const T* const products = p.products + expert * p.size;
  Gradient* const gradients = p.gradients + expert * p.size;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * threads * size;
  for (std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x) * size; i < p.size; i += step) {
    float sums[size] = {};
    if (p.adds) load_gradients<size>(gradients + i, sums);
    if (has_rows) {
      const auto product = *reinterpret_cast<const Pack<T, size>*>(products + i);
#pragma unroll
      for (int k = 0; k < size; ++k) sums[k] += widened(product.of[k]);
    }
    store_gradients<size>(sums, gradients + i);
  }
}

template <class T, class Gradient, int size>
void start(const GroupGradientArguments& a, void* stream) {
  const GroupGradients<T, Gradient> p{static_cast<const T*>(a.products), a.ends, static_cast<Gradient*>(a.gradients),
                                      a.size, a.adds};
  constexpr std::int64_t of_block = threads * size, most_blocks = 1024;
  const auto blocks = static_cast<unsigned>(std::min((a.size + of_block - 1) / of_block, most_blocks));
  const auto experts = static_cast<std::size_t>(a.experts), count = experts * static_cast<std::size_t>(a.size);
  launch(stream, "group_gradients", group_gradients_kernel<T, Gradient, size>,
         {dim3(blocks, static_cast<unsigned>(a.experts)), static_cast<unsigned>(threads)}, p,
         {reads(p.products, count), reads(p.ends, experts),
          (p.adds ? updates<Gradient> : writes<Gradient>)(p.gradients, count)});
}

template <class T, class Gradient>
void start_of(const GroupGradientArguments& a, void* stream) {
  if (a.size % pack_size<T> == 0 && are_aligned_to_packs(a.products, a.gradients))
    return start<T, Gradient, pack_size<T>>(a, stream);
  start<T, Gradient, 1>(a, stream);
}

void store(const GroupGradientArguments& a, void* stream) {
  if (a.experts == 0 || a.size == 0) return;
  with_type_of(a.element, [&]<class T> {
    if (a.gradient == KernelElement::fp32) return start_of<T, float>(a, stream);
    if constexpr (!std::is_same_v<T, float>) start_of<T, T>(a, stream);
  });
}

}  // namespace

const GroupGradientKernels cuda_group_gradient_kernels{store};

}  // namespace llmtrain::kernels
