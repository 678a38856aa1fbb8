// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/device/packs.h"
#include "kernels/cuda/device/random_runs.h"
#include "kernels/cuda/moe/jitter_kernels.h"

namespace llmtrain::kernels {
namespace {

template <class T>
struct ScaleAtRandom {
  const T* x;
  float* out;
  RandomRuns runs;
  double amplitude;
};

// The factor's product and sum are rounded one after the other, as the CPU's are: together they would have other bits.
__device__ __forceinline__ float jittered(float x, std::uint32_t word, double amplitude) {
  // Between −1 and 1; exact.
  const double uniform = (2.0 * word + 1) * 0x1p-32 - 1;
  return static_cast<float>(__dmul_rn(x, __dadd_rn(1, __dmul_rn(amplitude, uniform))));
}

// Runs of whole packs that begin with a counter's first word: a pack has the words of one.
template <class T>
__global__ void __launch_bounds__(random_threads) jitter_packs_kernel(ScaleAtRandom<T> p) {
  constexpr int size = words_of_counter;
  over_runs(p.runs, p.runs.length / size, [&](std::int64_t begin, std::int64_t place, std::int64_t i) {
    const std::int64_t element = begin + i * size;
    const auto x = *reinterpret_cast<const Pack<T, size>*>(p.x + element);
    std::uint32_t word[size];
    fill_words(p.runs.key, static_cast<std::uint64_t>(place / size + i), word);
    Pack<float, size> out;
#pragma unroll
    for (int k = 0; k < size; ++k) out.of[k] = jittered(widened(x.of[k]), word[k], p.amplitude);
    *reinterpret_cast<Pack<float, size>*>(p.out + element) = out;
  });
}

template <class T>
__global__ void __launch_bounds__(random_threads) jitter_words_kernel(ScaleAtRandom<T> p) {
  over_words(p.runs, [&](std::int64_t element, std::uint32_t word) {
    p.out[element] = jittered(widened(p.x[element]), word, p.amplitude);
  });
}

template <class T>
void start(const JitterArguments& a, void* stream) {
  const ScaleAtRandom<T> p{
      static_cast<const T*>(a.x), a.out, {a.length, a.runs, a.first, a.stride, a.key}, a.amplitude};
  const bool is_packed = are_whole_packs(p.runs, words_of_counter) && are_aligned_to_packs(p.x, p.out);
  launch(stream, "jitter", is_packed ? jitter_packs_kernel<T> : jitter_words_kernel<T>,
         shape_of(p.runs, words_of_counter), p, {reads(p.x, p.runs.elements()), writes(p.out, p.runs.elements())});
}

void jitter(const JitterArguments& a, void* stream) {
  if (a.length == 0 || a.runs == 0) return;
  with_type_of(a.element, [&]<class T> { start<T>(a, stream); });
}

}  // namespace

const JitterDeviceKernels cuda_jitter_kernels{jitter};

}  // namespace llmtrain::kernels
