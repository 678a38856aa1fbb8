// SPDX-License-Identifier: Apache-2.0
#include "core/body/run/labelled.h"
#include "core/body/run/steps.h"

namespace llmtrain::body {
namespace {

double factor_of(const Reduce& reduce, const StepShape& shape) {
  if (reduce.kind == ReduceKind::sum) return 1;
  return shape.output_elements() / shape.input_elements(0);
}

}  // namespace

// The mean of nothing is NaN, as LibTorch has it.
StepResult forward(const Reduce& reduce, const StepTensors& tensors, const StepContext& context) {
  const StepShape& shape = context.shape;
  const at::Tensor& x = tensors.inputs[0];
  const at::Tensor sum = summed_to(x, shape.input(0).axes, shape.output().axes);
  return {(reduce.kind == ReduceKind::sum ? sum : sum * factor_of(reduce, shape)).to(x.scalar_type())};
}

StepGradients backward(const Reduce& reduce, const at::Tensor& dy, const StepTensors& /*tensors*/,
                       const StepContext& context) {
  const StepShape& shape = context.shape;
  const at::Tensor gradient = reduce.kind == ReduceKind::sum ? dy : dy * factor_of(reduce, shape);
  const std::vector<AxisId>& axes = shape.input(0).axes;
  return {typed_gradient(context, 0, dy, spread(gradient, shape.output().axes, axes).expand(extents_of(shape, axes)))};
}

}  // namespace llmtrain::body
