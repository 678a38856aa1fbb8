// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/device/packs.h"
#include "kernels/cuda/embedding_kernels.h"

namespace llmtrain::kernels {
namespace {

template <class T>
struct AddRows {
  const T* dy;
  const std::int64_t* targets;
  const std::int64_t* rows;
  float* gradient;
  int count, width;
};

constexpr int threads = 128;

// Rows whose loads are under way at a time.
constexpr int ahead = 8;

// sums += every `step`th row from place `first` on that goes to its target, at these `size` columns.
template <class T, int size>
__device__ void add_run(const AddRows<T>& p, std::int64_t target, int first, int step, int column,
                        float (&sums)[size]) {
  using Elements = Pack<T, size>;
  for (int i = first; i < p.count && p.targets[i] == target; i += ahead * step) {
    Elements loaded[ahead];
    bool is_there[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      const int place = i + k * step;
      is_there[k] = place < p.count && p.targets[place] == target;
      if (is_there[k]) loaded[k] = *reinterpret_cast<const Elements*>(p.dy + p.rows[place] * p.width + column);
    }
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      if (!is_there[k]) continue;
#pragma unroll
      for (int e = 0; e < size; ++e) sums[e] += widened(loaded[k].of[e]);
    }
  }
}

// Whether the chunk of long_run_rows places from `place` on is of one target.
template <class T>
__device__ bool is_whole_chunk(const AddRows<T>& p, int place) {
  constexpr int last = long_run_rows - 1;
  return place + last < p.count && p.targets[place] == p.targets[place + last];
}

// Chunks begin at multiples of their size, so that a run's first whole one is known without a look at all of the run.
template <class T>
__device__ bool begins_long_run(const AddRows<T>& p, int place) {
  const int chunk = (place + long_run_rows - 1) / long_run_rows * long_run_rows;
  return is_whole_chunk(p, chunk) && p.targets[chunk] == p.targets[place];
}

// A block per place; those at which no run of equal targets begins have nothing to do, nor where a long one does. Each
// thread has its own columns.
template <class T, int size>
__global__ void __launch_bounds__(threads) add_rows_kernel(AddRows<T> p) {
  const auto place = static_cast<int>(blockIdx.x);
  if (place > 0 && p.targets[place - 1] == p.targets[place]) return;
  if (begins_long_run(p, place)) return;
  const std::int64_t target = p.targets[place];
  for (int column = static_cast<int>(threadIdx.x) * size; column < p.width; column += threads * size) {
    float* const gradient = p.gradient + target * p.width + column;
    float sums[size];
    load_floats<size>(gradient, sums);
    add_run(p, target, place, 1, column, sums);
    store_floats<size>(sums, gradient);
  }
}

// A block per chunk and slice of 32 threads' columns; those whose chunk is not a long run's first whole one have
// nothing to do. Each warp sums a part of the rows.
template <class T, int size>
__global__ void __launch_bounds__(32 * long_run_parts) add_long_run_kernel(AddRows<T> p) {
  SHARED_ARRAY(float, parts, 32 * long_run_parts * size);
  const int chunk = static_cast<int>(blockIdx.x) * long_run_rows;
  if (!is_whole_chunk(p, chunk)) return;
  const std::int64_t target = p.targets[chunk];
  if (chunk > 0 && p.targets[chunk - long_run_rows] == target) return;
  int first = chunk;
  while (first > 0 && p.targets[first - 1] == target) --first;
  const int lane = static_cast<int>(threadIdx.x) % 32, part = static_cast<int>(threadIdx.x) / 32;
  const int column = (static_cast<int>(blockIdx.y) * 32 + lane) * size;
  float sums[size] = {};
  if (column < p.width) add_run(p, target, first + part, long_run_parts, column, sums);
#pragma unroll
  for (int e = 0; e < size; ++e) parts[(part * size + e) * 32 + lane] = sums[e];
  __syncthreads();
  if (part != 0 || column >= p.width) return;
  float* const gradient = p.gradient + target * p.width + column;
  load_floats<size>(gradient, sums);
#pragma unroll
  for (int e = 0; e < size; ++e)
    for (int k = 0; k < long_run_parts; ++k) sums[e] += parts[(k * size + e) * 32 + lane];
  store_floats<size>(sums, gradient);
}

template <class T, int size>
void start(const AddRowsArguments& a, void* stream) {
  const AddRows<T> p{static_cast<const T*>(a.dy), a.targets, a.rows, a.gradient, static_cast<int>(a.count), a.width};
  const auto count = static_cast<std::size_t>(a.count), width = static_cast<std::size_t>(a.width);
  const auto run = [&](const char* name, void (*kernel)(AddRows<T>), dim3 grid, int block) {
    launch(stream, name, kernel, {grid, static_cast<unsigned>(block)}, p,
           {reads(p.dy, count * width), reads(p.targets, count), reads(p.rows, count),
            updates(p.gradient, static_cast<std::size_t>(a.table) * width)});
  };
  run("add_rows", add_rows_kernel<T, size>, static_cast<unsigned>(a.count), threads);
  const auto chunks = static_cast<unsigned>(a.count / long_run_rows);
  constexpr int slice = 32 * size;
  const auto slices = static_cast<unsigned>((a.width + slice - 1) / slice);
  if (chunks > 0) run("add_long_runs", add_long_run_kernel<T, size>, dim3(chunks, slices), 32 * long_run_parts);
}

template <class T>
void start_of(const AddRowsArguments& a, void* stream) {
  const bool is_whole = a.width % pack_size<T> == 0;
  if (is_whole && are_aligned_to_packs(a.dy, a.gradient)) return start<T, pack_size<T>>(a, stream);
  start<T, 1>(a, stream);
}

void add_rows(const AddRowsArguments& a, void* stream) {
  if (a.count == 0 || a.width == 0) return;
  with_type_of(a.element, [&]<class T> { start_of<T>(a, stream); });
}

}  // namespace

const EmbeddingKernels cuda_embedding_kernels{add_rows};

}  // namespace llmtrain::kernels
