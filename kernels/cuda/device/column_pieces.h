// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a matrix, in two kernels: blocks sum pieces of rows for strips of columns, and then a few
// threads per column add the pieces' sums. The order is that of a column's rows, and the same for any grid.
#pragma once

#include <algorithm>

#include "kernels/cuda/column_rows.h"
#include "kernels/cuda/device/elements.h"
#include "kernels/cuda/device/launch.h"
#include "kernels/cuda/device/packs.h"

namespace llmtrain::kernels {

// A block has a warp per row, of which each thread has a pack of columns.
constexpr int strip_packs = 32, strip_rows = 8, strip_threads = strip_packs * strip_rows;

struct ColumnPieces {
  float* partials = nullptr;  // [pieces, width], or null where nobody wants sums
  std::int64_t rows = 0, pieces = 0;
  std::int64_t width = 0;  // whole packs
};

inline ColumnPieces columns_of(float* partials, std::int64_t rows, int width) {
  return {partials, rows, column_pieces(rows), width};
}

inline LaunchShape shape_of(const ColumnPieces& columns, int size) {
  constexpr std::int64_t most_pieces = 65535;
  const std::int64_t packs = columns.width / size;
  return {dim3(static_cast<unsigned>((packs + strip_packs - 1) / strip_packs),
               static_cast<unsigned>(std::min(columns.pieces, most_pieces))),
          strip_threads};
}

// Calls work(first element of a pack, sums) for this thread's packs, in the order of rows; `work` adds to the sums of
// its columns. All threads of the block must call it.
template <int size, class Work>
__device__ __forceinline__ void over_columns(const ColumnPieces& p, Work work) {
  using Sums = Pack<float, size>;
  SHARED_ARRAY(Sums, shared, strip_threads);
  const int lane = static_cast<int>(threadIdx.x) % strip_packs, row_lane = static_cast<int>(threadIdx.x) / strip_packs;
  const std::int64_t first = std::int64_t{blockIdx.x} * strip_packs * size, column = first + lane * size;
  for (std::int64_t piece = blockIdx.y; piece < p.pieces; piece += gridDim.y) {
    Sums sums{};
    const std::int64_t begin = piece * column_piece_rows, end = min(begin + column_piece_rows, p.rows);
    if (column < p.width) {
#pragma unroll 4
      for (std::int64_t row = begin + row_lane; row < end; row += strip_rows) work(row * p.width + column, sums.of);
    }
    if (p.partials == nullptr) continue;
    __syncthreads();  // some may still read the sums of the piece before
    shared[threadIdx.x] = sums;
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < strip_packs * size && first + i < p.width; i += strip_threads) {
      float sum = shared[i / size].of[i % size];
      for (int other = 1; other < strip_rows; ++other) sum += shared[other * strip_packs + i / size].of[i % size];
      p.partials[piece * p.width + first + i] = sum;
    }
  }
}

// A thread adds every eighth piece's sum of its column; then one adds theirs.
constexpr int columns_of_block = 32, parts_of_pieces = 8, piece_threads = columns_of_block * parts_of_pieces;

inline LaunchShape shape_of_columns(int columns) {
  return {static_cast<unsigned>((columns + columns_of_block - 1) / columns_of_block), piece_threads};
}

__device__ __forceinline__ int own_column() {
  return static_cast<int>(blockIdx.x) * columns_of_block + static_cast<int>(threadIdx.x) % columns_of_block;
}

// Calls store(sum) with the sum of own_column() in one of its threads, which are a block of piece_threads; pieces are
// `stride` numbers apart. All threads must call it; without is_column nothing is read or stored.
template <class Store>
__device__ __forceinline__ void sum_pieces(const float* partials, std::int64_t pieces, std::int64_t stride,
                                           bool is_column, Store store) {
  SHARED_ARRAY(float, shared, piece_threads);
  const int lane = static_cast<int>(threadIdx.x) % columns_of_block;
  const int part = static_cast<int>(threadIdx.x) / columns_of_block, column = own_column();
  float sum = 0;
  for (std::int64_t piece = part; is_column && piece < pieces; piece += parts_of_pieces)
    sum += partials[piece * stride + column];
  shared[threadIdx.x] = sum;
  __syncthreads();
  if (part != 0 || !is_column) return;
  for (int other = 1; other < parts_of_pieces; ++other) sum += shared[other * columns_of_block + lane];
  store(sum);
}

}  // namespace llmtrain::kernels
