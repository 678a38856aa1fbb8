// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace llmtrain::kernels {

// The places [..., count] of the smallest elements of each row of x [..., n], which is contiguous, ascending; equal
// ones by their places, and NaN behind all numbers. int64. Where a processor has fp32 or float64, one pass over each
// row, whose cost grows with count only as far as elements get among the smallest; else a stable sort of the rows.
at::Tensor smallest_places(const at::Tensor& x, std::int64_t count);

}  // namespace llmtrain::kernels
