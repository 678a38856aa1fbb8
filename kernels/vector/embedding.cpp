// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/embedding.h"

#include "kernels/vector/math.h"

namespace llmtrain::kernels::vector {
namespace {

// Elements below which starting a second thread costs more than it saves.
constexpr std::int64_t least_parallel_elements = 16384;

template <class Element>
void forward_row(const EmbeddingArrays<Element>& arrays, std::int64_t t) {
  const Element* __restrict row = arrays.table + arrays.tokens[t] * arrays.width;
  Element* __restrict y = arrays.y + t * arrays.width;
  // Without positions the row is copied as bits, not converted.
  if (arrays.positions == nullptr) {
#pragma omp simd
    for (std::int64_t i = 0; i < arrays.width; ++i) y[i] = row[i];
    return;
  }
  const Element* __restrict position = arrays.positions + t % arrays.sequence_length * arrays.width;
#pragma omp simd
  for (std::int64_t i = 0; i < arrays.width; ++i) store(y[i], to_float(row[i]) + to_float(position[i]));
}

template <class Element>
void forward(const EmbeddingArrays<Element>& arrays) {
#pragma omp parallel for schedule(static) if (arrays.count * arrays.width >= least_parallel_elements)
  for (std::int64_t t = 0; t < arrays.count; ++t) forward_row(arrays, t);
}

// Columns are split too, so that one frequent token does not leave the other threads idle.
constexpr std::int64_t chunk_width = 256;

template <class Element, class Gradient>
void add_chunk(const RowSumArrays<Element, Gradient>& arrays, std::int64_t group, std::int64_t first_column) {
  const std::int64_t rest = arrays.width - first_column;
  const std::int64_t columns = rest < chunk_width ? rest : chunk_width;
  Gradient* __restrict gradient = arrays.gradient + arrays.targets[group] * arrays.width + first_column;
  // Summed in fp32 and rounded once, also where the gradient is bf16.
  float sums[chunk_width];
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) sums[i] = to_float(gradient[i]);
  for (std::int64_t k = arrays.offsets[group]; k < arrays.offsets[group + 1]; ++k) {
    const Element* __restrict dy = arrays.dy + arrays.order[k] * arrays.width + first_column;
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) sums[i] += to_float(dy[i]);
  }
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) store(gradient[i], sums[i]);
}

template <class Element, class Gradient>
void add_rows(const RowSumArrays<Element, Gradient>& arrays) {
  const std::int64_t chunks = (arrays.width + chunk_width - 1) / chunk_width;
  // Groups × column chunks: a model with few distinct tokens in a batch still has work for every thread.
  const std::int64_t items = arrays.groups * chunks;
// Dynamic: token frequencies differ widely, and so does the work per group. Each item writes elements of its own, so
// the schedule does not affect the result.
#pragma omp parallel for schedule(dynamic, \
                                  16) if (arrays.offsets[arrays.groups] * arrays.width >= least_parallel_elements)
  for (std::int64_t item = 0; item < items; ++item) add_chunk(arrays, item / chunks, item % chunks * chunk_width);
}

template <class Element>
EmbeddingKernels<Element> kernels() {
  return {.forward = forward<Element>,
          .add_rows_fp32 = add_rows<Element, float>,
          .add_rows_bf16 = add_rows<Element, std::uint16_t>};
}

}  // namespace

template <>
EmbeddingKernels<float> embedding_kernels_for<LLMTRAIN_VECTOR_LEVEL, float>() {
  return kernels<float>();
}

template <>
EmbeddingKernels<std::uint16_t> embedding_kernels_for<LLMTRAIN_VECTOR_LEVEL, std::uint16_t>() {
  return kernels<std::uint16_t>();
}

}  // namespace llmtrain::kernels::vector
