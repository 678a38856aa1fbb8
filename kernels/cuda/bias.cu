// SPDX-License-Identifier: Apache-2.0
#include <cstdint>

#include "kernels/cuda/bias_kernels.h"
#include "kernels/cuda/device/column_pieces.h"

namespace llmtrain::kernels {
namespace {

template <class T>
struct RowSums {
  const T* dy;
  ColumnPieces columns;
};

template <class T>
struct PieceSums {
  const float* partials;
  T* dbias;
  std::int64_t pieces, width;
  std::int64_t adds;  // whole, as the parameters are to have no gaps
};

template <class T, int size>
__global__ void __launch_bounds__(strip_threads) bias_rows_kernel(RowSums<T> p) {
  over_columns<size>(p.columns, [&](std::int64_t element, float(&sums)[size]) {
    const auto dy = *reinterpret_cast<const Pack<T, size>*>(p.dy + element);
#pragma unroll
    for (int k = 0; k < size; ++k) sums[k] += widened(dy.of[k]);
  });
}

template <class T>
__global__ void __launch_bounds__(piece_threads) bias_pieces_kernel(PieceSums<T> p) {
  const int column = own_column();
  sum_pieces(p.partials, p.pieces, p.width, column < p.width,
             [&](float sum) { p.dbias[column] = narrowed<T>(p.adds != 0 ? widened(p.dbias[column]) + sum : sum); });
}

template <class T, int size>
void start_rows(const BiasArguments& a, void* stream) {
  const RowSums<T> p{static_cast<const T*>(a.dy), columns_of(a.partials, a.rows, a.width)};
  const auto width = static_cast<std::size_t>(a.width);
  launch(stream, "bias_rows", bias_rows_kernel<T, size>, shape_of(p.columns, size), p,
         {reads(p.dy, static_cast<std::size_t>(a.rows) * width),
          writes(a.partials, static_cast<std::size_t>(column_pieces(a.rows)) * width)});
}

template <class T>
void rows_of(const BiasArguments& a, void* stream) {
  if (a.width % pack_size<T> == 0 && are_aligned_to_packs(a.dy)) return start_rows<T, pack_size<T>>(a, stream);
  start_rows<T, 1>(a, stream);
}

void sum_rows(const BiasArguments& a, void* stream) {
  if (a.rows == 0 || a.width == 0) return;
  with_type_of(a.element, [&]<class T> { rows_of<T>(a, stream); });
}

template <class T>
void start_pieces(const BiasSumArguments& a, void* stream) {
  const PieceSums<T> p{a.partials, static_cast<T*>(a.dbias), column_pieces(a.rows), a.width, a.adds ? 1 : 0};
  const auto width = static_cast<std::size_t>(a.width);
  launch(stream, "bias_pieces", bias_pieces_kernel<T>, shape_of_columns(a.width), p,
         {reads(p.partials, static_cast<std::size_t>(p.pieces) * width),
          (a.adds ? updates<T> : writes<T>)(p.dbias, width)});
}

void sum_all_pieces(const BiasSumArguments& a, void* stream) {
  if (a.width == 0) return;
  with_type_of(a.gradient, [&]<class T> { start_pieces<T>(a, stream); });
}

}  // namespace

const BiasKernels cuda_bias_kernels{sum_rows, sum_all_pieces};

}  // namespace llmtrain::kernels
