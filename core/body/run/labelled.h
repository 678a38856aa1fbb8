// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/body/run/steps.h"

namespace llmtrain::body {

// Tensors by the labels of their axes.

std::vector<std::int64_t> extents_of(const StepShape& shape, const std::vector<AxisId>& axes);

// A view of x, which has the axes `from`, with the same axes in another order.
at::Tensor in_order(const at::Tensor& x, const std::vector<AxisId>& from, const std::vector<AxisId>& to);

// A view of x, whose axes `from` are some of `to`, of as many axes as `to`, with one element along those it lacks.
at::Tensor spread(const at::Tensor& x, const std::vector<AxisId>& from, const std::vector<AxisId>& to);

// The sum of x, which has the axes `from`, over those that `to` lacks, in the type of sums and in the order of `to`.
at::Tensor summed_to(const at::Tensor& x, const std::vector<AxisId>& from, const std::vector<AxisId>& to);

// The element type of the gradient of an input, and `gradient` in it.
at::ScalarType gradient_type(const StepContext& context, std::size_t place, const at::Tensor& dy);
at::Tensor typed_gradient(const StepContext& context, std::size_t place, const at::Tensor& dy,
                          const at::Tensor& gradient);

}  // namespace llmtrain::body
