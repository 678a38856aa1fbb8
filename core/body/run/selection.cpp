// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/gather.h>
#include <ATen/ops/zeros.h>

#include "core/body/run/labelled.h"
#include "core/body/run/steps.h"
#include "kernels/selection/smallest.h"

namespace llmtrain::body {

StepResult forward(const Smallest& /*smallest*/, const StepTensors& tensors, const StepContext& context) {
  return {kernels::smallest_places(tensors.inputs[0].contiguous(),
                                   context.shape.extent(context.shape.output().axes.back()))};
}

StepGradients backward(const Smallest& /*smallest*/, const at::Tensor& /*dy*/, const StepTensors& /*tensors*/,
                       const StepContext& context) {
  return StepGradients(context.shape.inputs());
}

StepResult forward(const Take& /*take*/, const StepTensors& tensors, const StepContext& /*context*/) {
  return {at::gather(tensors.inputs[0], -1, tensors.inputs[1])};
}

// Places of a row are distinct, so that no two of them add to the same element, in whatever order.
StepGradients backward(const Take& /*take*/, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context) {
  at::Tensor dx = at::zeros(extents_of(context.shape, context.shape.input(0).axes),
                            dy.options().dtype(gradient_type(context, 0, dy)));
  dx.scatter_(-1, tensors.inputs[1], dy.to(dx.scalar_type()));
  return {dx, {}};
}

}  // namespace llmtrain::body
