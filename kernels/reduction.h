// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace llmtrain::kernels {

// Σ x², accumulated in float64 over blocks of fixed size, so that it does not depend on the number of threads.
double sum_of_squares(const at::Tensor& x);

}  // namespace llmtrain::kernels
