// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace llmtrain::kernels {

// Σ x², accumulated in float64 over blocks of fixed size, so that it does not depend on the number of threads. Waits
// for a GPU.
double sum_of_squares(const at::Tensor& x);

// The same as a float64 tensor without axes where x is: nobody waits for a GPU. There rows of 2048 elements are summed
// in fp32 (float64 for float64), in an order that the shape alone decides, and the rows in float64; temporary memory is
// two numbers per row. A row whose sum is beyond fp32, of values of about 1e19, is infinite.
at::Tensor sum_of_squares_there(const at::Tensor& x);

}  // namespace llmtrain::kernels
