// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/activation.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>

#include <limits>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"
#include "kernels/cuda_operators/bias.h"

namespace llmtrain::kernels {
namespace {

// Side by side: the columns of x [rows, 2·width].
GateAndUp halves(const at::Tensor& x) {
  const std::int64_t width = x.size(-1) / 2;
  return {x.narrow(-1, 0, width), x.narrow(-1, width, width)};
}

SwigluArguments swiglu_arguments(const GateAndUp& x) {
  const std::int64_t width = x.gate.size(-1);
  return {.element = *element_of(x.gate),
          .gate = x.gate.const_data_ptr(),
          .up = x.up.const_data_ptr(),
          .rows = width == 0 ? 0 : x.gate.numel() / width,
          .stride = x.gate.is_contiguous() ? width : 2 * width,
          .width = static_cast<int>(width)};
}

at::Tensor swiglu_forward_of(const GateAndUp& x) {
  const c10::DeviceGuard guard(x.gate.device());
  const at::Tensor y = at::empty(x.gate.sizes(), x.gate.options());
  SwigluArguments arguments = swiglu_arguments(x);
  arguments.y = y.mutable_data_ptr();
  kernel_table()->activation->swiglu_forward(arguments, stream_of(x.gate));
  return y;
}

void swiglu_backward_of(const at::Tensor& dy, const GateAndUp& x, const GateAndUp& dx) {
  const c10::DeviceGuard guard(x.gate.device());
  SwigluArguments arguments = swiglu_arguments(x);
  arguments.dy = dy.const_data_ptr();
  arguments.dgate = dx.gate.mutable_data_ptr();
  arguments.dup = dx.up.mutable_data_ptr();
  kernel_table()->activation->swiglu_backward(arguments, stream_of(x.gate));
}

GeluArguments gelu_arguments(const at::Tensor& x, ActivationKind kind, const at::Tensor& out) {
  const std::int64_t width = x.size(-1);
  return {.element = *element_of(x),
          .form = kind == ActivationKind::gelu_tanh ? GeluForm::tanh : GeluForm::exact,
          .x = x.const_data_ptr(),
          .out = out.mutable_data_ptr(),
          .rows = width == 0 ? 0 : x.numel() / width,
          .width = static_cast<int>(width)};
}

at::Tensor gelu_backward(const at::Tensor& dy, const at::Tensor& x, ActivationKind kind, float* partials) {
  const c10::DeviceGuard guard(x.device());
  const at::Tensor dx = at::empty_like(x);
  GeluArguments arguments = gelu_arguments(x, kind, dx);
  arguments.dy = dy.const_data_ptr();
  arguments.partials = partials;
  kernel_table()->gelu->backward(arguments, stream_of(x));
  return dx;
}

}  // namespace

bool has_cuda_activation(const at::Tensor& x) {
  return has_kernels(x) && x.is_contiguous() && x.size(-1) <= std::numeric_limits<int>::max();
}

at::Tensor cuda_gelu_forward(const at::Tensor& x, ActivationKind kind) {
  const c10::DeviceGuard guard(x.device());
  const at::Tensor y = at::empty_like(x);
  kernel_table()->gelu->forward(gelu_arguments(x, kind, y), stream_of(x));
  return y;
}

at::Tensor cuda_gelu_backward(const at::Tensor& dy, const at::Tensor& x, ActivationKind kind) {
  return gelu_backward(dy, x, kind, nullptr);
}

at::Tensor cuda_gelu_bias_backward(const at::Tensor& dy, const at::Tensor& x, ActivationKind kind,
                                   const at::Tensor& dbias, Accumulation accumulation) {
  const at::Tensor partials = cuda_bias_partials(x);
  at::Tensor dx = gelu_backward(dy, x, kind, partials.mutable_data_ptr<float>());
  cuda_sum_bias_partials(partials, x.size(0), dbias, accumulation);
  return dx;
}

at::Tensor cuda_swiglu_forward(const at::Tensor& x) { return swiglu_forward_of(halves(x)); }

at::Tensor cuda_swiglu_backward(const at::Tensor& dy, const at::Tensor& x) {
  at::Tensor dx = at::empty_like(x);
  swiglu_backward_of(dy, halves(x), halves(dx));
  return dx;
}

bool has_cuda_gate_and_up(const GateAndUp& x) {
  return has_cuda_activation(x.gate) && has_cuda_activation(x.up) && x.up.scalar_type() == x.gate.scalar_type();
}

at::Tensor cuda_swiglu_forward(const GateAndUp& x) { return swiglu_forward_of(x); }

GateAndUp cuda_swiglu_backward(const at::Tensor& dy, const GateAndUp& x) {
  GateAndUp dx{at::empty_like(x.gate), at::empty_like(x.up)};
  swiglu_backward_of(dy, x, dx);
  return dx;
}

}  // namespace llmtrain::kernels
