// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/cat.h>

#include "core/body/run/labelled.h"
#include "core/body/run/steps.h"

namespace llmtrain::body {

StepResult forward(const Join& join, const StepTensors& tensors, const StepContext& /*context*/) {
  return {at::cat(tensors.inputs, static_cast<std::int64_t>(join.place))};
}

StepGradients backward(const Join& join, const at::Tensor& dy, const StepTensors& /*tensors*/,
                       const StepContext& context) {
  const StepShape& shape = context.shape;
  StepGradients gradients(shape.inputs());
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const std::int64_t extent = shape.extent(shape.input(i).axes[join.place]);
    if (shape.has_gradient(i))
      gradients[i] = typed_gradient(context, i, dy, dy.narrow(static_cast<std::int64_t>(join.place), begin, extent));
    begin += extent;
  }
  return gradients;
}

}  // namespace llmtrain::body
