// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels::vector {

// Σ x² of n elements in float64: element i goes to lane i mod 32, the lanes are added in order. The bits of the result
// are the same at every level.
struct SumOfSquaresKernels {
  double (*fp32)(const float* x, std::int64_t n);
  double (*bf16)(const std::uint16_t* x, std::int64_t n);
};

template <int level>
SumOfSquaresKernels sum_of_squares_kernels_for();

}  // namespace llmtrain::kernels::vector
