// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/cross_entropy_kernels.h"
#include "kernels/cuda/device/block_maximum.h"
#include "kernels/cuda/device/block_sum.h"
#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/device/logistic.h"
#include "kernels/cuda/device/shared_limit.h"

namespace llmtrain::kernels {
namespace {

enum class Result { losses, losses_and_gradient, statistics };

template <class T>
struct Rows {
  T* logits;
  const std::int64_t* targets;
  float* results;  // losses [rows] or statistics [rows, 3]
  std::int64_t rows, first_column;
  int columns;
  int kept;  // packs of a row for which there is shared memory
  float scale;
};

template <class T>
using Packed = Pack<T, pack_size<T>>;

// The packs of a row lie on boundaries of 16 bytes, at which a row of an odd width does not begin.
template <class T>
struct Row {
  T* begin;
  T* end;
  Packed<T>* packs;
  int before, count, behind;  // elements in front of the packs, packs, elements behind them
};

template <class T>
__device__ __forceinline__ Row<T> row_at(T* begin, int columns) {
  constexpr int size = pack_size<T>;
  const int skew = static_cast<int>(reinterpret_cast<std::uintptr_t>(begin) % 16 / sizeof(T));
  const int before = min((size - skew) % size, columns), count = (columns - before) / size;
  return {begin,  begin + columns, reinterpret_cast<Packed<T>*>(begin + before),
          before, count,           columns - before - count * size};
}

// Calls work(element) for those of this thread outside the packs.
template <class T, class Work>
__device__ __forceinline__ void over_edges(const Row<T>& row, Work work) {
  const int own = static_cast<int>(threadIdx.x);
  if (own < row.before) work(row.begin[own]);
  if (own < row.behind) work(row.end[own - row.behind]);
}

// Calls work(i, pack) for this thread's packs from `first` to `end`. Loads that are under way together hide one
// another's time.
template <int threads, class Elements, class Work>
__device__ __forceinline__ void over_packs(const Elements* packs, int first, int end, Work work) {
  constexpr int together = threads > 512 ? 2 : 4;  // as many as the registers of so many threads hold
  for (int i = first + static_cast<int>(threadIdx.x); i < end; i += together * threads) {
    Elements loaded[together];
#pragma unroll
    for (int k = 0; k < together; ++k)
      if (i + k * threads < end) loaded[k] = packs[i + k * threads];
#pragma unroll
    for (int k = 0; k < together; ++k)
      if (i + k * threads < end) work(i + k * threads, loaded[k]);
  }
}

struct Sum {
  float maximum = -3.402823466e38F;  // the least number: −∞ − −∞ would be none
  float sum = 0;                     // Σ exp(logit − maximum)
};

template <class T, int size>
__device__ __forceinline__ void add(Sum& to, const T (&logits)[size]) {
  float largest = to.maximum;
  for (int k = 0; k < size; ++k) largest = fmaxf(largest, widened(logits[k]));
  // Soon rare, and then in no lane of a warp.
  if (largest > to.maximum) {
    to.sum *= expf(to.maximum - largest);
    to.maximum = largest;
  }
  float sum = 0;
  for (int k = 0; k < size; ++k) sum += expf(widened(logits[k]) - largest);
  to.sum += sum;
}

// The sum of the whole row, in all threads. Keeps its first packs.
template <class T, int threads>
__device__ Sum sum_of(const Row<T>& row, Packed<T>* kept, int most_kept) {
  Sum own;
  over_edges(row, [&](const T& logit) {
    const T one[1] = {logit};
    add(own, one);
  });
  over_packs<threads>(row.packs, 0, row.count, [&](int i, const Packed<T>& pack) {
    if (i < most_kept) kept[i] = pack;
    add(own, pack.of);
  });
  const float maximum = block_maximum<threads>(own.maximum);
  return {maximum, block_sum(own.sum * expf(own.maximum - maximum))};
}

// What becomes of logits: factor·exp(logit − maximum), and −scale at the target.
template <class T>
struct Gradient {
  float maximum, factor, scale;
  __device__ float probability(float logit) const { return exponential<T>(logit - maximum) * factor; }
  __device__ T elsewhere(T logit) const { return narrowed<T>(probability(widened(logit))); }
  __device__ T at_target(float logit) const { return narrowed<T>(probability(logit) - scale); }
};

// A thread takes from `kept` what it has put there itself.
template <class T, int threads>
__device__ void write_gradient(const Row<T>& row, const Gradient<T>& gradient, const Packed<T>* kept, int most_kept,
                               int target, float target_logit) {
  const auto write = [&](int i, const Packed<T>& pack) {
    Packed<T> result;
    for (int k = 0; k < pack_size<T>; ++k) result.of[k] = gradient.elsewhere(pack.of[k]);
    row.packs[i] = result;
  };
  const int first = min(most_kept, row.count);
  for (int i = static_cast<int>(threadIdx.x); i < first; i += threads) {
    const Packed<T> pack = kept[i];  // at once
    write(i, pack);
  }
  over_packs<threads>(static_cast<const Packed<T>*>(row.packs), most_kept, row.count, write);
  over_edges(row, [&](T& logit) { logit = gradient.elsewhere(logit); });
  __syncthreads();
  // Anew in fp32: the stored one has been rounded.
  if (threadIdx.x == 0 && target >= 0) row.begin[target] = gradient.at_target(target_logit);
}

// The target's column, −1 where it is in another slice.
template <class T>
__device__ __forceinline__ int target_of(const Rows<T>& p, std::int64_t row) {
  const std::int64_t column = p.targets[row] - p.first_column;
  return column >= 0 && column < p.columns ? static_cast<int>(column) : -1;
}

// A block per row, which is read once; what of it shared memory does not hold comes from the cache again.
template <class T, int threads, Result result>
__global__ void __launch_bounds__(threads) cross_entropy_kernel(Rows<T> p) {
  DYNAMIC_SHARED(Packed<T>, kept);
  for (std::int64_t place = blockIdx.x; place < p.rows; place += gridDim.x) {
    const Row<T> row = row_at(p.logits + place * p.columns, p.columns);
    const int target = target_of(p, place);
    const float target_logit = target >= 0 ? widened(row.begin[target]) : 0;
    const Sum whole = sum_of<T, threads>(row, kept, p.kept);
    if (threadIdx.x == 0) {
      if constexpr (result == Result::statistics) {
        p.results[3 * place] = whole.sum == 0 ? -INFINITY : whole.maximum;
        p.results[3 * place + 1] = whole.sum;
        p.results[3 * place + 2] = target_logit;
      } else {
        // Neither is below 0, so that nothing cancels.
        p.results[place] = logf(whole.sum) + (whole.maximum - target_logit);
      }
    }
    if constexpr (result == Result::losses_and_gradient)
      write_gradient<T, threads>(row, {whole.maximum, p.scale / whole.sum, p.scale}, kept, p.kept, target,
                                 target_logit);
  }
}

// The same by the statistics [rows, 3] of whole rows, of which these are a slice.
template <class T, int threads>
__global__ void __launch_bounds__(threads) cross_entropy_slice_kernel(Rows<T> p) {
  for (std::int64_t place = blockIdx.x; place < p.rows; place += gridDim.x) {
    const Row<T> row = row_at(p.logits + place * p.columns, p.columns);
    const float* const whole = p.results + 3 * place;
    write_gradient<T, threads>(row, {whole[0], p.scale / whole[1], p.scale}, nullptr, 0, target_of(p, place), whole[2]);
  }
}

template <class T, int threads>
void start(const char* name, void (*kernel)(Rows<T>), const Rows<T>& p, MemoryUse logits, MemoryUse results,
           void* stream) {
  constexpr std::int64_t most_blocks = std::int64_t{1} << 20;
  launch(stream, name, kernel,
         {static_cast<unsigned>(std::min(p.rows, most_blocks)), static_cast<unsigned>(threads),
          static_cast<std::size_t>(p.kept) * sizeof(Packed<T>)},
         p, {logits, reads(p.targets, static_cast<std::size_t>(p.rows)), results});
}

template <class T>
std::size_t row_bytes(const Rows<T>& p) {
  return static_cast<std::size_t>(p.columns) * sizeof(T);
}

template <class T>
std::size_t elements(const Rows<T>& p) {
  return static_cast<std::size_t>(p.rows) * static_cast<std::size_t>(p.columns);
}

// Chosen by a row's bytes alone, so that its sums have one order on all GPUs and with a gradient as without. Of rows of
// up to half a multiprocessor's shared memory two blocks share it, and one loads while the other waits.
constexpr int few = 128, many = 512, most = 1024;
constexpr std::size_t narrow_row = 8 << 10, half_of_shared = 113 << 10;

template <class T, Result result>
void start_whole(const char* name, const Rows<T>& p, MemoryUse logits, MemoryUse results, void* stream) {
  if (row_bytes(p) <= narrow_row)
    return start<T, few>(name, cross_entropy_kernel<T, few, result>, p, logits, results, stream);
  if (row_bytes(p) <= half_of_shared)
    return start<T, many>(name, cross_entropy_kernel<T, many, result>, p, logits, results, stream);
  start<T, most>(name, cross_entropy_kernel<T, most, result>, p, logits, results, stream);
}

template <class T>
void start_slice(const Rows<T>& p, MemoryUse statistics, void* stream) {
  constexpr const char* name = "cross_entropy_backward";
  const MemoryUse logits = updates(p.logits, elements(p));
  if (row_bytes(p) <= narrow_row)
    return start<T, few>(name, cross_entropy_slice_kernel<T, few>, p, logits, statistics, stream);
  start<T, many>(name, cross_entropy_slice_kernel<T, many>, p, logits, statistics, stream);
}

// Calls work(rows) for the arguments' type.
template <class Work>
void with_rows(const CrossEntropyArguments& a, float* results, float scale, Work work) {
  if (a.rows == 0) return;
  with_type_of(a.element, [&]<class T> {
    work(Rows<T>{static_cast<T*>(a.logits), a.targets, results, a.rows, a.first_column, a.columns, 0, scale});
  });
}

void forward(const CrossEntropyArguments& a, float* losses, void* stream) {
  with_rows(a, losses, 0, [&]<class T>(const Rows<T>& p) {
    start_whole<T, Result::losses>("cross_entropy_forward", p, reads(p.logits, elements(p)),
                                   writes(losses, static_cast<std::size_t>(a.rows)), stream);
  });
}

void forward_backward(const CrossEntropyArguments& a, float scale, float* losses, void* stream) {
  with_rows(a, losses, scale, [&]<class T>(Rows<T> p) {
    p.kept = static_cast<int>(std::min(row_bytes(p), shared_limit()) / sizeof(Packed<T>));
    start_whole<T, Result::losses_and_gradient>("cross_entropy_forward_backward", p, updates(p.logits, elements(p)),
                                                writes(losses, static_cast<std::size_t>(a.rows)), stream);
  });
}

void statistics(const CrossEntropyArguments& a, float* results, void* stream) {
  with_rows(a, results, 0, [&]<class T>(const Rows<T>& p) {
    start_whole<T, Result::statistics>("cross_entropy_statistics", p, reads(p.logits, elements(p)),
                                       writes(results, 3 * static_cast<std::size_t>(a.rows)), stream);
  });
}

void backward(const CrossEntropyArguments& a, const float* whole, float scale, void* stream) {
  if (a.columns == 0) return;
  // Not written.
  with_rows(a, const_cast<float*>(whole), scale,
            [&](const auto& p) { start_slice(p, reads(whole, 3 * static_cast<std::size_t>(a.rows)), stream); });
}

}  // namespace

const CrossEntropyKernels cuda_cross_entropy_kernels{forward, forward_backward, statistics, backward};

}  // namespace llmtrain::kernels
