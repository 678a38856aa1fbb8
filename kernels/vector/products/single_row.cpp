// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/products/single_row.h"

#include "kernels/vector/products/row_products.h"

namespace llmtrain::kernels::vector {
namespace {

// Rows whose products are kept in registers or the nearest cache before they are rounded.
constexpr std::int64_t chunk = 16;

// Elements of the weight below which starting a second thread costs more than it saves.
constexpr std::int64_t least_parallel_elements = 131072;

template <class Element>
void multiply(const SingleRowArrays<Element>& arrays) {
  const std::int64_t chunks = (arrays.out + chunk - 1) / chunk;
#pragma omp parallel for schedule(static) if (arrays.in * arrays.out >= least_parallel_elements)
  for (std::int64_t c = 0; c < chunks; ++c) {
    const std::int64_t first = c * chunk, rest = arrays.out - first;
    const std::int64_t count = rest < chunk ? rest : chunk;
    float sums[chunk];
    row_products(arrays.x, arrays.weight + first * arrays.in, count, arrays.in, sums);
    if (arrays.bias != nullptr)
      for (std::int64_t i = 0; i < count; ++i) sums[i] += to_float(arrays.bias[first + i]);
    for (std::int64_t i = 0; i < count; ++i) store(arrays.y[first + i], sums[i]);
  }
}

}  // namespace

template <>
SingleRowLoop<float> single_row_loop_for<LLMTRAIN_VECTOR_LEVEL, float>() {
  return multiply<float>;
}
template <>
SingleRowLoop<std::uint16_t> single_row_loop_for<LLMTRAIN_VECTOR_LEVEL, std::uint16_t>() {
  return multiply<std::uint16_t>;
}

}  // namespace llmtrain::kernels::vector
