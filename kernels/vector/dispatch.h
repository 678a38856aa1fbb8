// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels::vector {

// Choice c is the choice c mod `choices` of token c / `choices` (kernels/moe/expert_rows.h); rows are `width` long.

// rows[r] = x[token of choice_of[r]].
template <class Element>
struct RowCopyArrays {
  const Element* x;
  const std::int64_t* choice_of;  // [count]
  Element* rows;                  // [count, width]
  std::int64_t count;
  std::int64_t choices;
  std::int64_t width;
};

// y[t] = Σ_j gates[t, j] · rows[row_of[t, j]], without the choices whose row is −1.
template <class Element>
struct ChoiceSumArrays {
  const Element* rows;
  const float* gates;          // [tokens, choices]; null: all 1
  const std::int64_t* row_of;  // [tokens, choices]
  Element* y;                  // [tokens, width]
  std::int64_t tokens;
  std::int64_t choices;
  std::int64_t width;
};

// For each row r of choice c of token t: drows[r] = gates[c] · dy[t] and dgates[c] = dy[t] · rows[r].
template <class Element>
struct ChoiceSumGradientArrays {
  const Element* dy;
  const Element* rows;
  const float* gates;
  const std::int64_t* choice_of;  // [count]
  Element* drows;                 // [count, width]
  float* dgates;
  std::int64_t count;
  std::int64_t choices;
  std::int64_t width;
};

// Element is float or std::uint16_t (bf16); sums are formed in fp32.
template <class Element>
struct DispatchKernels {
  void (*copy)(const RowCopyArrays<Element>& arrays);
  void (*sum)(const ChoiceSumArrays<Element>& arrays);
  void (*sum_backward)(const ChoiceSumGradientArrays<Element>& arrays);
};

template <int level, class Element>
DispatchKernels<Element> dispatch_kernels_for();

}  // namespace llmtrain::kernels::vector
