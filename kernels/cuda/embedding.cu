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

// gradient[target] += the rows from place `first` on that go there, at these `size` columns.
template <class T, int size>
__device__ void add_run(const AddRows<T>& p, int first, int column) {
  using Elements = Pack<T, size>;
  const std::int64_t target = p.targets[first];
  float* const gradient = p.gradient + target * p.width + column;
  float sums[size];
  load_floats<size>(gradient, sums);
  for (int i = first; i < p.count && p.targets[i] == target; i += ahead) {
    Elements loaded[ahead];
    bool is_there[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      is_there[k] = i + k < p.count && p.targets[i + k] == target;
      if (is_there[k]) loaded[k] = *reinterpret_cast<const Elements*>(p.dy + p.rows[i + k] * p.width + column);
    }
#pragma unroll
    for (int k = 0; k < ahead; ++k) {
      if (!is_there[k]) continue;
#pragma unroll
      for (int e = 0; e < size; ++e) sums[e] += widened(loaded[k].of[e]);
    }
  }
  store_floats<size>(sums, gradient);
}

// A block per place; those at which no run of equal targets begins have nothing to do. Each thread has its own columns.
template <class T, int size>
__global__ void __launch_bounds__(threads) add_rows_kernel(AddRows<T> p) {
  const auto place = static_cast<int>(blockIdx.x);
  if (place > 0 && p.targets[place - 1] == p.targets[place]) return;
  for (int column = static_cast<int>(threadIdx.x) * size; column < p.width; column += threads * size)
    add_run<T, size>(p, place, column);
}

template <class T, int size>
void start(const AddRowsArguments& a, void* stream) {
  const AddRows<T> p{static_cast<const T*>(a.dy), a.targets, a.rows, a.gradient, static_cast<int>(a.count), a.width};
  const auto count = static_cast<std::size_t>(a.count), width = static_cast<std::size_t>(a.width);
  launch(stream, "add_rows", add_rows_kernel<T, size>, {static_cast<unsigned>(a.count), static_cast<unsigned>(threads)},
         p,
         {reads(p.dy, count * width), reads(p.targets, count), reads(p.rows, count),
          writes(p.gradient, static_cast<std::size_t>(a.table) * width)});
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
