// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/device/packs.h"
#include "kernels/cuda/device/random_runs.h"
#include "kernels/cuda/dropout_kernels.h"

namespace llmtrain::kernels {
namespace {

template <class T>
struct Drop {
  const T* x;
  const T* residual;
  T* out;
  RandomRuns runs;
  std::uint32_t threshold;
  float scale;
};

// Rounded before the addition as well as after it, as where these are two passes over memory.
template <class T>
__device__ __forceinline__ T dropped(const Drop<T>& p, std::uint32_t word, T x) {
  // Chosen rather than multiplied by 0: a dropped infinity or NaN becomes 0.
  return narrowed<T>(word < p.threshold ? 0.0F : __fmul_rn(widened(x), p.scale));
}

template <class T>
__device__ __forceinline__ T added(T x, T residual) {
  return narrowed<T>(widened(x) + widened(residual));
}

// Runs of whole packs that begin with a counter's first word.
template <class T>
__global__ void __launch_bounds__(random_threads) dropout_packs_kernel(Drop<T> p) {
  constexpr int size = pack_size<T>;
  using Elements = Pack<T, size>;
  over_runs(p.runs, p.runs.length / size, [&](std::int64_t begin, std::int64_t place, std::int64_t i) {
    const std::int64_t element = begin + i * size;
    Elements x = *reinterpret_cast<const Elements*>(p.x + element), residual{};
    if (p.residual != nullptr) residual = *reinterpret_cast<const Elements*>(p.residual + element);
#pragma unroll
    for (int part = 0; part < size; part += words_of_counter) {
      std::uint32_t word[words_of_counter];
      fill_words(p.runs.key, static_cast<std::uint64_t>(place + i * size + part) / words_of_counter, word);
#pragma unroll
      for (int k = 0; k < words_of_counter; ++k) x.of[part + k] = dropped(p, word[k], x.of[part + k]);
    }
    if (p.residual != nullptr) {
#pragma unroll
      for (int k = 0; k < size; ++k) x.of[k] = added(x.of[k], residual.of[k]);
    }
    *reinterpret_cast<Elements*>(p.out + element) = x;
  });
}

template <class T>
__global__ void __launch_bounds__(random_threads) dropout_words_kernel(Drop<T> p) {
  over_words(p.runs, [&](std::int64_t element, std::uint32_t word) {
    const T y = dropped(p, word, p.x[element]);
    p.out[element] = p.residual != nullptr ? added(y, p.residual[element]) : y;
  });
}

template <class T>
void start(const DropoutArguments& a, void* stream) {
  const Drop<T> p{static_cast<const T*>(a.x),
                  static_cast<const T*>(a.residual),
                  static_cast<T*>(a.out),
                  {a.length, a.runs, a.first, a.stride, a.key},
                  a.threshold,
                  a.scale};
  const std::size_t count = p.runs.elements();
  const bool is_packed = are_whole_packs(p.runs, pack_size<T>) && are_aligned_to_packs(p.x, p.residual, p.out);
  launch(stream, "dropout", is_packed ? dropout_packs_kernel<T> : dropout_words_kernel<T>,
         shape_of(p.runs, is_packed ? pack_size<T> : words_of_counter), p,
         {reads(p.x, count), reads(p.residual, count), writes(p.out, count)});
}

void drop(const DropoutArguments& a, void* stream) {
  if (a.length == 0 || a.runs == 0) return;
  with_type_of(a.element, [&]<class T> { start<T>(a, stream); });
}

}  // namespace

const DropoutDeviceKernels cuda_dropout_kernels{drop};

}  // namespace llmtrain::kernels
