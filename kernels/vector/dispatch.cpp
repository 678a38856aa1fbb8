// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/dispatch.h"

#include "kernels/vector/math.h"

namespace llmtrain::kernels::vector {
namespace {

// Elements below which starting a second thread costs more than it saves.
constexpr std::int64_t least_parallel_elements = 16384;

template <class Element>
void copy(const RowCopyArrays<Element>& arrays) {
#pragma omp parallel for schedule(static) if (arrays.count * arrays.width >= least_parallel_elements)
  for (std::int64_t r = 0; r < arrays.count; ++r) {
    const Element* __restrict from = arrays.x + arrays.choice_of[r] / arrays.choices * arrays.width;
    Element* __restrict to = arrays.rows + r * arrays.width;
#pragma omp simd
    for (std::int64_t i = 0; i < arrays.width; ++i) to[i] = from[i];
  }
}

// Columns that are summed in registers or the nearest cache.
constexpr std::int64_t chunk_width = 256;

template <class Element>
void sum_chunk(const ChoiceSumArrays<Element>& arrays, std::int64_t t, std::int64_t first) {
  const std::int64_t rest = arrays.width - first;
  const std::int64_t columns = rest < chunk_width ? rest : chunk_width;
  float sums[chunk_width] = {};
  for (std::int64_t choice = t * arrays.choices; choice < (t + 1) * arrays.choices; ++choice) {
    if (arrays.row_of[choice] < 0) continue;
    const Element* __restrict row = arrays.rows + arrays.row_of[choice] * arrays.width + first;
    // A product with 1 is exact: sums without gates share the loop and have the bits of plain additions.
    const float gate = arrays.gates == nullptr ? 1.0F : arrays.gates[choice];
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) sums[i] = multiply_add(gate, to_float(row[i]), sums[i]);
  }
  Element* __restrict y = arrays.y + t * arrays.width + first;
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) store(y[i], sums[i]);
}

template <class Element>
void sum(const ChoiceSumArrays<Element>& arrays) {
#pragma omp parallel for schedule(static) if (arrays.tokens * arrays.choices * arrays.width >= least_parallel_elements)
  for (std::int64_t t = 0; t < arrays.tokens; ++t)
    for (std::int64_t first = 0; first < arrays.width; first += chunk_width) sum_chunk(arrays, t, first);
}

template <class Element>
void sum_backward(const ChoiceSumGradientArrays<Element>& arrays) {
#pragma omp parallel for schedule(static) if (arrays.count * arrays.width >= least_parallel_elements)
  for (std::int64_t r = 0; r < arrays.count; ++r) {
    const std::int64_t choice = arrays.choice_of[r];
    const Element* __restrict dy = arrays.dy + choice / arrays.choices * arrays.width;
    const Element* __restrict row = arrays.rows + r * arrays.width;
    Element* __restrict drow = arrays.drows + r * arrays.width;
    const float gate = arrays.gates[choice];
    // One thread sums a row, in an order that only the instruction-set level decides.
    float product = 0;
#pragma omp simd reduction(+ : product)
    for (std::int64_t i = 0; i < arrays.width; ++i) {
      const float gradient = to_float(dy[i]);
      product += gradient * to_float(row[i]);
      store(drow[i], gate * gradient);
    }
    arrays.dgates[choice] = product;
  }
}

template <class Element>
DispatchKernels<Element> kernels() {
  return {.copy = copy<Element>, .sum = sum<Element>, .sum_backward = sum_backward<Element>};
}

}  // namespace

template <>
DispatchKernels<float> dispatch_kernels_for<LLMTRAIN_VECTOR_LEVEL, float>() {
  return kernels<float>();
}

template <>
DispatchKernels<std::uint16_t> dispatch_kernels_for<LLMTRAIN_VECTOR_LEVEL, std::uint16_t>() {
  return kernels<std::uint16_t>();
}

}  // namespace llmtrain::kernels::vector
