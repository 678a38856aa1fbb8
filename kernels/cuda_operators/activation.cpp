// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/activation.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>

#include <limits>
#include <vector>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"
#include "kernels/cuda_operators/bias.h"

namespace llmtrain::kernels {
namespace {

// `shaped`: dy or y, [rows, width].
SwigluArguments swiglu_arguments(const at::Tensor& shaped, const at::Tensor& x, const at::Tensor& out) {
  const std::int64_t width = shaped.size(-1);
  return {.element = *element_of(x),
          .x = x.const_data_ptr(),
          .out = out.mutable_data_ptr(),
          .rows = width == 0 ? 0 : shaped.numel() / width,
          .width = static_cast<int>(width)};
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

at::Tensor cuda_swiglu_forward(const at::Tensor& x) {
  const c10::DeviceGuard guard(x.device());
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() /= 2;
  const at::Tensor y = at::empty(shape, x.options());
  kernel_table()->activation->swiglu_forward(swiglu_arguments(y, x, y), stream_of(x));
  return y;
}

at::Tensor cuda_swiglu_backward(const at::Tensor& dy, const at::Tensor& x) {
  const c10::DeviceGuard guard(x.device());
  const at::Tensor dx = at::empty_like(x);
  SwigluArguments arguments = swiglu_arguments(dy, x, dx);
  arguments.dy = dy.const_data_ptr();
  kernel_table()->activation->swiglu_backward(arguments, stream_of(x));
  return dx;
}

}  // namespace llmtrain::kernels
