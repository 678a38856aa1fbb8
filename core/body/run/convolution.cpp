// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>

#include "core/body/run/labelled.h"
#include "core/body/run/steps.h"
#include "kernels/accumulation_type.h"

namespace llmtrain::body {
namespace {

// A processor without units for fp16 convolves in fp32.
at::Tensor convolved_type(const at::Tensor& x) {
  return (kernels::is_widened(x) ? kernels::widened(x) : x).contiguous();
}

}  // namespace

StepResult forward(const Convolution& convolution, const StepTensors& tensors, const StepContext& /*context*/) {
  const at::Tensor x = convolved_type(tensors.inputs[0]), kernel = convolved_type(tensors.inputs[1]);
  const auto windows = static_cast<std::size_t>(x.dim() - 2);
  const Convolution along = along_axes(convolution, windows);
  const std::vector<std::int64_t> none(windows, 0);
  const at::Tensor y =
      at::convolution(x, kernel, {}, along.stride, along.padding, along.dilation, false, none, along.groups);
  return {y.to(tensors.inputs[0].scalar_type())};
}

StepGradients backward(const Convolution& convolution, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context) {
  const StepShape& shape = context.shape;
  // Whichever operand's gradient is not wanted, the other operand was not kept: its shape is enough.
  const auto operand = [&](std::size_t place) {
    if (tensors.inputs[place].defined()) return convolved_type(tensors.inputs[place]);
    return convolved_type(dy.new_empty({1})).expand(extents_of(shape, shape.input(place).axes));
  };
  const at::Tensor x = operand(0), kernel = operand(1);
  const auto windows = static_cast<std::size_t>(x.dim() - 2);
  const Convolution along = along_axes(convolution, windows);
  const std::vector<std::int64_t> none(windows, 0);
  const auto made =
      at::convolution_backward(convolved_type(dy), x, kernel, {}, along.stride, along.padding, along.dilation, false,
                               none, along.groups, {shape.has_gradient(0), shape.has_gradient(1), false});
  StepGradients gradients(2);
  if (shape.has_gradient(0)) gradients[0] = typed_gradient(context, 0, dy, std::get<0>(made));
  if (shape.has_gradient(1)) gradients[1] = typed_gradient(context, 1, dy, std::get<1>(made));
  return gradients;
}

}  // namespace llmtrain::body
