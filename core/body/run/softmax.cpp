// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/_softmax.h>
#include <ATen/ops/_softmax_backward_data.h>

#include "core/body/run/labelled.h"
#include "core/body/run/steps.h"

namespace llmtrain::body {

StepResult forward(const Softmax& softmax, const StepTensors& tensors, const StepContext& context) {
  const std::int64_t place = StepShape::place_in(context.shape.output(), softmax.axis);
  return {at::_softmax(tensors.inputs[0], place, false)};
}

StepGradients backward(const Softmax& softmax, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context) {
  const std::int64_t place = StepShape::place_in(context.shape.output(), softmax.axis);
  const at::Tensor dx = at::_softmax_backward_data(dy, tensors.output, place, dy.scalar_type());
  return {typed_gradient(context, 0, dy, dx)};
}

}  // namespace llmtrain::body
