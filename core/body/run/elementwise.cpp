// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/log.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/threshold_backward.h>

#include "core/body/run/labelled.h"
#include "core/body/run/steps.h"
#include "kernels/activation.h"

namespace llmtrain::body {
namespace {

using kernels::ActivationKind;

// [rows, columns], as the kernels take it.
at::Tensor as_rows(const at::Tensor& x) {
  const std::int64_t columns = x.dim() == 0 ? 1 : x.size(-1);
  return x.contiguous().view({columns == 0 ? 0 : x.numel() / columns, columns});
}

at::Tensor shaped_as(const at::Tensor& rows, const at::Tensor& x) { return rows.view(x.sizes()); }

at::Tensor sum_of(const StepTensors& tensors, const StepShape& shape) {
  const auto operand = [&](std::size_t i) {
    return spread(tensors.inputs[i], shape.input(i).axes, shape.output().axes);
  };
  at::Tensor sum = tensors.inputs[0] + operand(1);
  for (std::size_t i = 2; i < tensors.inputs.size(); ++i) sum.add_(operand(i));
  return sum;
}

at::Tensor gelu(const at::Tensor& x, ActivationKind kind) {
  return shaped_as(kernels::activation_forward(as_rows(x), kind), x);
}

at::Tensor gelu_gradient(const at::Tensor& dy, const at::Tensor& x, ActivationKind kind) {
  return shaped_as(kernels::activation_backward(as_rows(dy), as_rows(x), kind), x);
}

// The gradient of an operand that may be repeated.
at::Tensor operand_gradient(const at::Tensor& gradient, std::size_t place, const at::Tensor& dy,
                            const StepContext& context) {
  const StepShape& shape = context.shape;
  if (shape.input(place).axes == shape.output().axes) return typed_gradient(context, place, dy, gradient);
  return typed_gradient(context, place, dy, summed_to(gradient, shape.output().axes, shape.input(place).axes));
}

StepGradients sum_gradients(const at::Tensor& dy, const StepContext& context) {
  StepGradients gradients(context.shape.inputs());
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (context.shape.has_gradient(i)) gradients[i] = operand_gradient(dy, i, dy, context);
  return gradients;
}

StepGradients product_gradients(const at::Tensor& dy, const StepTensors& tensors, const StepContext& context) {
  const StepShape& shape = context.shape;
  StepGradients gradients(2);
  for (const std::size_t one : {0, 1}) {
    const std::size_t other = 1 - one;
    if (!shape.has_gradient(one)) continue;
    const at::Tensor factor = spread(tensors.inputs[other], shape.input(other).axes, shape.output().axes);
    gradients[one] = operand_gradient(dy * factor, one, dy, context);
  }
  return gradients;
}

StepGradients swiglu_gradients(const at::Tensor& dy, const StepTensors& tensors) {
  const at::Tensor &gate = tensors.inputs[0], &up = tensors.inputs[1];
  const kernels::GateAndUp d =
      kernels::gated_backward(as_rows(dy), {as_rows(gate), as_rows(up)}, ActivationKind::swiglu);
  return {d.gate.reshape(gate.sizes()), d.up.reshape(up.sizes())};
}

}  // namespace

StepResult forward(const Elementwise& elementwise, const StepTensors& tensors, const StepContext& context) {
  const at::Tensor& x = tensors.inputs[0];
  switch (elementwise.kind) {
    case ElementwiseKind::add:
      return {sum_of(tensors, context.shape)};
    case ElementwiseKind::multiply:
      return {x * spread(tensors.inputs[1], context.shape.input(1).axes, context.shape.output().axes)};
    case ElementwiseKind::scale:
      return {x * elementwise.factor};
    case ElementwiseKind::relu:
      return {at::relu(x)};
    case ElementwiseKind::gelu:
      return {gelu(x, ActivationKind::gelu)};
    case ElementwiseKind::gelu_tanh:
      return {gelu(x, ActivationKind::gelu_tanh)};
    case ElementwiseKind::silu:
      return {at::silu(x)};
    case ElementwiseKind::sigmoid:
      return {at::sigmoid(x)};
    case ElementwiseKind::tanh:
      return {at::tanh(x)};
    case ElementwiseKind::exp:
      return {at::exp(x)};
    case ElementwiseKind::log:
      return {at::log(x)};
    case ElementwiseKind::swiglu:
      return {shaped_as(kernels::gated_forward({as_rows(x), as_rows(tensors.inputs[1])}, ActivationKind::swiglu), x)};
  }
  return {};
}

StepGradients backward(const Elementwise& elementwise, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context) {
  const at::Tensor& y = tensors.output;
  switch (elementwise.kind) {
    case ElementwiseKind::add:
      return sum_gradients(dy, context);
    case ElementwiseKind::multiply:
      return product_gradients(dy, tensors, context);
    case ElementwiseKind::scale:
      return {typed_gradient(context, 0, dy, dy * elementwise.factor)};
    case ElementwiseKind::relu:
      return {typed_gradient(context, 0, dy, at::threshold_backward(dy, y, 0))};
    case ElementwiseKind::gelu:
      return {typed_gradient(context, 0, dy, gelu_gradient(dy, tensors.inputs[0], ActivationKind::gelu))};
    case ElementwiseKind::gelu_tanh:
      return {typed_gradient(context, 0, dy, gelu_gradient(dy, tensors.inputs[0], ActivationKind::gelu_tanh))};
    case ElementwiseKind::silu:
      return {typed_gradient(context, 0, dy, at::silu_backward(dy, tensors.inputs[0]))};
    case ElementwiseKind::sigmoid:
      return {typed_gradient(context, 0, dy, at::sigmoid_backward(dy, y))};
    case ElementwiseKind::tanh:
      return {typed_gradient(context, 0, dy, at::tanh_backward(dy, y))};
    case ElementwiseKind::exp:
      return {typed_gradient(context, 0, dy, dy * y)};
    case ElementwiseKind::log:
      return {typed_gradient(context, 0, dy, dy / tensors.inputs[0])};
    case ElementwiseKind::swiglu:
      return swiglu_gradients(dy, tensors);
  }
  return {};
}

}  // namespace llmtrain::body
