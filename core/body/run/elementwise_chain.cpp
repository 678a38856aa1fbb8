// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/ones_like.h>

#include <utility>

#include "core/body/run/labelled.h"
#include "core/body/run/steps.h"

namespace llmtrain::body {

StepResult forward(const ElementwiseChain& chain, const StepTensors& tensors, const StepContext& context) {
  const at::Tensor& x = tensors.inputs[0];
  const bool is_kept = context.pass.trains && context.shape.output().has_gradient;
  at::Tensor value = x, derivative = is_kept ? at::ones_like(x) : at::Tensor();
  for (const Elementwise& link : chain.links) {
    at::Tensor next = forward(link, {.inputs = {value}}, context).output;
    // The backward of an element-wise function multiplies by its derivative, whatever it is given.
    if (is_kept)
      derivative = backward(link, derivative, {.inputs = {value}, .output = next}, context)[0].to(x.scalar_type());
    value = std::move(next);
  }
  StepResult result{value};
  if (is_kept) result.statistics = {std::move(derivative)};
  return result;
}

StepGradients backward(const ElementwiseChain& /*chain*/, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context) {
  return {typed_gradient(context, 0, dy, dy * tensors.statistics[0])};
}

}  // namespace llmtrain::body
