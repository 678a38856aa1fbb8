// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace llmtrain::kernels {

// sum_of_squares_there() (kernels/reduction.h) on a GPU, by two kernels.

bool has_cuda_squares(const at::Tensor& x);

// For an x for which there are kernels.
at::Tensor cuda_sum_of_squares(const at::Tensor& x);

}  // namespace llmtrain::kernels
