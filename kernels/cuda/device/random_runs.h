// SPDX-License-Identifier: Apache-2.0
// Elements that each get a random word by their index in the unsharded tensor: four words from a counter.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/device/launch.h"
#include "kernels/random/philox.h"

namespace llmtrain::kernels {

constexpr int random_threads = 256, words_of_counter = 4;

// `runs` runs of `length` elements, one behind the other here; element i of run r has the index first + r·stride + i in
// the unsharded tensor.
struct RandomRuns {
  std::int64_t length = 0;
  std::int64_t runs = 0;
  std::int64_t first = 0;
  std::int64_t stride = 0;
  std::uint64_t key = 0;

  std::size_t elements() const { return static_cast<std::size_t>(length) * static_cast<std::size_t>(runs); }
};

__device__ __forceinline__ void fill_words(std::uint64_t key, std::uint64_t counter,
                                           std::uint32_t (&word)[words_of_counter]) {
  word[0] = static_cast<std::uint32_t>(counter);
  word[1] = static_cast<std::uint32_t>(counter >> 32);
  word[2] = word[3] = 0;
  philox_in_place(key, word);
}

// Calls work(first element of the run, its index in the unsharded tensor, i) for this thread's i below `count` of each
// run.
template <class Work>
__device__ __forceinline__ void over_runs(const RandomRuns& p, std::int64_t count, Work work) {
  for (std::int64_t run = blockIdx.y; run < p.runs; run += gridDim.y)
    for (std::int64_t i = std::int64_t{blockIdx.x} * random_threads + threadIdx.x; i < count;
         i += std::int64_t{gridDim.x} * random_threads)
      work(run * p.length, p.first + run * p.stride, i);
}

// Calls work(element, word) for all elements: a thread takes those of a counter.
template <class Work>
__device__ __forceinline__ void over_words(const RandomRuns& p, Work work) {
  constexpr int words = words_of_counter;
  // No run touches more counters than one that begins with a counter's last word.
  over_runs(p, (p.length + words - 1 + words - 1) / words, [&](std::int64_t begin, std::int64_t place, std::int64_t i) {
    const std::int64_t counter = place / words + i;
    std::uint32_t word[words];
    fill_words(p.key, static_cast<std::uint64_t>(counter), word);
#pragma unroll
    for (int k = 0; k < words; ++k) {
      const std::int64_t at = counter * words + k - place;
      if (at >= 0 && at < p.length) work(begin + at, word[k]);
    }
  });
}

// Whether runs begin with a counter's first word, whole packs of `size` elements fill them.
inline bool are_whole_packs(const RandomRuns& p, int size) {
  const bool begin_with_counters = p.first % words_of_counter == 0 && (p.runs == 1 || p.stride % words_of_counter == 0);
  return begin_with_counters && p.length % size == 0;
}

// `of_thread`: elements that a thread takes at once.
inline LaunchShape shape_of(const RandomRuns& p, int of_thread) {
  constexpr std::int64_t most_blocks = std::int64_t{1} << 20, most_rows = 65535;
  const std::int64_t threads = p.length / of_thread + 1, blocks = (threads + random_threads - 1) / random_threads;
  return {
      dim3(static_cast<unsigned>(std::min(blocks, most_blocks)), static_cast<unsigned>(std::min(p.runs, most_rows))),
      static_cast<unsigned>(random_threads)};
}

}  // namespace llmtrain::kernels
