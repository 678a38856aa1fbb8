// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace llmtrain {

// The largest absolute value of a tensor of any floating-point type, on any device: 0 of an empty one, NaN where one
// is.
double largest_magnitude(const at::Tensor& values);

// Throws Error(bad_data) where a weight is NaN or infinite: no training leads away from it. `what` names the tensor and
// its file.
void require_finite(const at::Tensor& values, const std::string& what);

}  // namespace llmtrain
