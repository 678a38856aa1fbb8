// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace llmtrain::kernels {

// Fills x (contiguous) with normal numbers: element i is Box-Muller (in float64) of philox(key, (first_element + i)/2),
// so any slice of a tensor can be made without the rest. Even elements take the cosine, odd ones the sine. fp32 and
// float64 are rounded from float64, other types from fp32; the bits are the same on every processor and device.
void fill_normal_(at::Tensor& x, std::uint64_t key, double standard_deviation, std::int64_t first_element = 0);

// The same for a block of a matrix: row r of x [rows, columns], contiguous, starts at element first_element +
// r·row_stride.
void fill_normal_block_(at::Tensor& x, std::uint64_t key, double standard_deviation, std::int64_t first_element,
                        std::int64_t row_stride);

}  // namespace llmtrain::kernels
