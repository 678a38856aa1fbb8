// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/device/packs.h"
#include "kernels/cuda/dropout_kernels.h"
#include "kernels/random/philox.h"

namespace llmtrain::kernels {
namespace {

constexpr int dropout_threads = 256, words = 4;  // of a counter

template <class T>
struct Drop {
  const T* x;
  const T* residual;
  T* out;
  std::int64_t length, runs, first, stride;
  std::uint64_t key;
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

__device__ __forceinline__ void fill_words(std::uint64_t key, std::uint64_t counter, std::uint32_t (&word)[words]) {
  word[0] = static_cast<std::uint32_t>(counter);
  word[1] = static_cast<std::uint32_t>(counter >> 32);
  word[2] = word[3] = 0;
  philox_in_place(key, word);
}

// Calls work(first element of the run, its index in the unsharded tensor, i) for this thread's i below `count` of each
// run.
template <class T, class Work>
__device__ __forceinline__ void over_runs(const Drop<T>& p, std::int64_t count, Work work) {
  for (std::int64_t run = blockIdx.y; run < p.runs; run += gridDim.y)
    for (std::int64_t i = std::int64_t{blockIdx.x} * dropout_threads + threadIdx.x; i < count;
         i += std::int64_t{gridDim.x} * dropout_threads)
      work(run * p.length, p.first + run * p.stride, i);
}

// Runs of whole packs that begin with a counter's first word.
template <class T>
__global__ void __launch_bounds__(dropout_threads) dropout_packs_kernel(Drop<T> p) {
  constexpr int size = pack_size<T>;
  using Elements = Pack<T, size>;
  over_runs(p, p.length / size, [&](std::int64_t begin, std::int64_t place, std::int64_t i) {
    const std::int64_t element = begin + i * size;
    Elements x = *reinterpret_cast<const Elements*>(p.x + element), residual{};
    if (p.residual != nullptr) residual = *reinterpret_cast<const Elements*>(p.residual + element);
#pragma unroll
    for (int part = 0; part < size; part += words) {
      std::uint32_t word[words];
      fill_words(p.key, static_cast<std::uint64_t>(place + i * size + part) / words, word);
#pragma unroll
      for (int k = 0; k < words; ++k) x.of[part + k] = dropped(p, word[k], x.of[part + k]);
    }
    if (p.residual != nullptr) {
#pragma unroll
      for (int k = 0; k < size; ++k) x.of[k] = added(x.of[k], residual.of[k]);
    }
    *reinterpret_cast<Elements*>(p.out + element) = x;
  });
}

// Any runs: a thread takes the elements of a counter.
template <class T>
__global__ void __launch_bounds__(dropout_threads) dropout_counters_kernel(Drop<T> p) {
  // No run touches more counters than one that begins with a counter's last word.
  over_runs(p, (p.length + words - 1 + words - 1) / words, [&](std::int64_t begin, std::int64_t place, std::int64_t i) {
    const std::int64_t counter = place / words + i;
    std::uint32_t word[words];
    fill_words(p.key, static_cast<std::uint64_t>(counter), word);
#pragma unroll
    for (int k = 0; k < words; ++k) {
      const std::int64_t at = counter * words + k - place;
      if (at < 0 || at >= p.length) continue;
      const T y = dropped(p, word[k], p.x[begin + at]);
      p.out[begin + at] = p.residual != nullptr ? added(y, p.residual[begin + at]) : y;
    }
  });
}

LaunchShape shape_for(std::int64_t threads, std::int64_t runs) {
  constexpr std::int64_t most_blocks = std::int64_t{1} << 20, most_rows = 65535;
  const std::int64_t blocks = (threads + dropout_threads - 1) / dropout_threads;
  return {dim3(static_cast<unsigned>(std::min(blocks, most_blocks)), static_cast<unsigned>(std::min(runs, most_rows))),
          dropout_threads};
}

template <class T>
bool has_whole_packs(const DropoutArguments& a) {
  const bool begin_with_counters = a.first % words == 0 && (a.runs == 1 || a.stride % words == 0);
  return begin_with_counters && a.length % pack_size<T> == 0 && are_aligned_to_packs(a.x, a.residual, a.out);
}

template <class T>
void start(const DropoutArguments& a, void* stream) {
  const Drop<T> p{static_cast<const T*>(a.x),
                  static_cast<const T*>(a.residual),
                  static_cast<T*>(a.out),
                  a.length,
                  a.runs,
                  a.first,
                  a.stride,
                  a.key,
                  a.threshold,
                  a.scale};
  const auto count = static_cast<std::size_t>(a.length) * static_cast<std::size_t>(a.runs);
  const bool is_packed = has_whole_packs<T>(a);
  launch(stream, "dropout", is_packed ? dropout_packs_kernel<T> : dropout_counters_kernel<T>,
         shape_for(a.length / (is_packed ? pack_size<T> : words) + 1, a.runs), p,
         {reads(p.x, count), reads(p.residual, count), writes(p.out, count)});
}

void drop(const DropoutArguments& a, void* stream) {
  if (a.length == 0 || a.runs == 0) return;
  with_type_of(a.element, [&]<class T> { start<T>(a, stream); });
}

}  // namespace

const DropoutDeviceKernels cuda_dropout_kernels{drop};

}  // namespace llmtrain::kernels
