// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace llmtrain::kernels {

// Σ x², accumulated in float64 over blocks of fixed size, so that it does not depend on the number of threads. Waits
// for a GPU.
double sum_of_squares(const at::Tensor& x);

// The same as a float64 tensor without axes where x is: nobody waits for a GPU. There the elements that 16 bytes hold
// are squared and summed in fp32 and all else in float64, in an order that the number of elements alone decides; with
// values from about 1e19 on the sum is infinite. Without a kernel LibTorch sums rows of 2048 elements in fp32 (float64
// for float64), and temporary memory is two numbers per row.
at::Tensor sum_of_squares_there(const at::Tensor& x);

}  // namespace llmtrain::kernels
