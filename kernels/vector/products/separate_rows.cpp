// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/products/separate_rows.h"

#include "kernels/vector/products/row_products.h"

namespace llmtrain::kernels::vector {
namespace {

// Rows of the weight that a thread takes at a time.
constexpr std::int64_t chunk = 16;
// Rows that are multiplied with four of the weight at once: sixteen sums, for which the widest level has registers.
constexpr std::int64_t tile = LLMTRAIN_VECTOR_LEVEL == 4 ? 4 : 2;

// Elements that are multiplied below which starting a second thread costs more than it saves.
constexpr std::int64_t least_parallel_elements = 131072;

// The products of `count` ≤ 4 rows of the weight, from row `first` on, with `rows` rows from row `r` on.
template <std::int64_t rows, class Element>
void multiply_tile(const SeparateRowsArrays<Element>& arrays, std::int64_t r, std::int64_t first, std::int64_t count) {
  float sums[rows][4];
  const Element* weight = arrays.weight + first * arrays.in;
  // The last few rows of the weight take no code of their own: the sums of others than the first are left.
  if (count == 4) {
    tile_products<rows>(arrays.x + r * arrays.x_stride, arrays.x_stride, weight, arrays.in, arrays.in, sums);
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      float same[rows][4];
      tile_products<rows>(arrays.x + r * arrays.x_stride, arrays.x_stride, weight + i * arrays.in, 0, arrays.in, same);
      for (std::int64_t row = 0; row < rows; ++row) sums[row][i] = same[row][0];
    }
  }
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < count; ++i) {
      if (arrays.bias != nullptr) sums[row][i] += to_float(arrays.bias[first + i]);
      store(arrays.y[(r + row) * arrays.y_stride + first + i], sums[row][i]);
    }
  }
}

template <class Element>
void multiply(const SeparateRowsArrays<Element>& arrays) {
  const std::int64_t chunks = (arrays.out + chunk - 1) / chunk;
#pragma omp parallel for schedule(static) if (arrays.rows * arrays.in * arrays.out >= least_parallel_elements)
  for (std::int64_t c = 0; c < chunks; ++c) {
    const std::int64_t begin = c * chunk, end = begin + chunk < arrays.out ? begin + chunk : arrays.out;
    for (std::int64_t first = begin; first < end; first += 4) {
      const std::int64_t count = end - first < 4 ? end - first : 4;
      std::int64_t r = 0;
      for (; r + tile <= arrays.rows; r += tile) multiply_tile<tile>(arrays, r, first, count);
      for (; r < arrays.rows; ++r) multiply_tile<1>(arrays, r, first, count);
    }
  }
}

}  // namespace

template <>
SeparateRowsLoop<float> separate_rows_loop_for<LLMTRAIN_VECTOR_LEVEL, float>() {
  return multiply<float>;
}
template <>
SeparateRowsLoop<std::uint16_t> separate_rows_loop_for<LLMTRAIN_VECTOR_LEVEL, std::uint16_t>() {
  return multiply<std::uint16_t>;
}

}  // namespace llmtrain::kernels::vector
