// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels::vector {

template <class Element>
struct EmbeddingArrays {
  const std::int64_t* tokens;  // [count], each a row of table
  const Element* table;
  const Element* positions;  // token t adds row t mod sequence_length; null for none
  Element* y;                // [count, width]
  std::int64_t count;
  std::int64_t width;
  std::int64_t sequence_length;
};

// Group g adds the rows order[offsets[g]] … order[offsets[g + 1] − 1] of dy, in this order, to row targets[g] of
// `gradient`. Targets differ, so any thread may take any group.
template <class Element, class Gradient>
struct RowSumArrays {
  const Element* dy;
  Gradient* gradient;
  const std::int64_t* targets;  // [groups]
  const std::int64_t* offsets;  // [groups + 1]
  const std::int64_t* order;
  std::int64_t groups;
  std::int64_t width;
};

// Sums are formed in fp32 and rounded once to Gradient. Element and Gradient are float or std::uint16_t (bf16).
template <class Element>
struct EmbeddingKernels {
  void (*forward)(const EmbeddingArrays<Element>& arrays);
  void (*add_rows_fp32)(const RowSumArrays<Element, float>& arrays);
  void (*add_rows_bf16)(const RowSumArrays<Element, std::uint16_t>& arrays);
};

template <int level, class Element>
EmbeddingKernels<Element> embedding_kernels_for();

}  // namespace llmtrain::kernels::vector
