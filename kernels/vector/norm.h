// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels::vector {

// Rows of x, y, residual, dy and dx are of type Element; statistics and the vectors of length `width` are fp32. Arrays
// do not overlap. Rows are divided among the OpenMP threads; no result depends on their number.

template <class Element>
struct NormForwardArrays {
  const Element* x;
  Element* residual;    // add_forward only: becomes residual + x, and is what is normalised
  const float* weight;  // [width]
  const float* bias;    // [width]: zeros for none
  Element* y;
  float* mean;  // [rows]; null for root-mean-square
  float* rstd;  // [rows]
  std::int64_t rows;
  std::int64_t width;
  float eps;
};

// Sums over rows are formed from one partial sum per block of this many rows.
constexpr std::int64_t norm_block_rows = 32;

template <class Element>
struct NormBackwardArrays {
  const Element* dy;
  const Element* x;
  const float* mean;  // null for root-mean-square
  const float* rstd;
  const float* weight;
  Element* dx;      // added to
  float* partials;  // scratch: [blocks of norm_block_rows rows, 2, width]
  float* dweight;   // [width], overwritten
  float* dbias;     // [width], overwritten; null for root-mean-square
  std::int64_t rows;
  std::int64_t width;
};

// A null `mean` selects root-mean-square normalisation.
template <class Element>
struct NormKernels {
  void (*forward)(const NormForwardArrays<Element>& arrays);
  void (*add_forward)(const NormForwardArrays<Element>& arrays);
  void (*recompute)(const NormForwardArrays<Element>& arrays);
  void (*backward)(const NormBackwardArrays<Element>& arrays);
};

// Element is float or std::uint16_t (bf16).
template <int level, class Element>
NormKernels<Element> norm_kernels_for();

}  // namespace llmtrain::kernels::vector
