// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <vector>

#include "kernels/cuda_operators/activation.h"
#include "kernels/cuda_operators/bias.h"
#include "kernels/reference/operators.h"
#include "kernels/vector/activation.h"
#include "kernels/vector/level.h"
#include "kernels/vector_dispatch.h"

namespace llmtrain::kernels {
namespace {

template <class Element>
vector::ActivationPasses<Element> activation_loops(ActivationKind kind) {
  const auto kernels = vector::at_level([]<int level> { return vector::activation_kernels_for<level, Element>(); });
  switch (kind) {
    case ActivationKind::gelu:
      return kernels.gelu;
    case ActivationKind::gelu_tanh:
      return kernels.gelu_tanh;
    case ActivationKind::relu:
      return kernels.relu;
    case ActivationKind::squared_relu:
      return kernels.squared_relu;
    case ActivationKind::swiglu:
      return kernels.swiglu;
    case ActivationKind::geglu:
      return kernels.geglu;
    case ActivationKind::geglu_tanh:
      return kernels.geglu_tanh;
    case ActivationKind::clamped_swiglu:
      break;
  }
  return kernels.clamped_swiglu;
}

bool is_gelu(ActivationKind kind) { return kind == ActivationKind::gelu || kind == ActivationKind::gelu_tanh; }

// What a GPU has kernels of.
bool has_cuda_kernel(ActivationKind kind) { return is_gelu(kind) || kind == ActivationKind::swiglu; }

// Kernels and loops have one element type for gradient and input.
bool have_one_type(const at::Tensor& dy, const at::Tensor& x) { return dy.scalar_type() == x.scalar_type(); }

bool has_cuda_backward(const at::Tensor& dy, const at::Tensor& x, ActivationKind kind) {
  return has_cuda_kernel(kind) && have_one_type(dy, x) && dy.is_contiguous() && has_cuda_activation(x);
}

}  // namespace

at::Tensor activation_forward(const at::Tensor& x, ActivationKind kind) {
  if (has_cuda_kernel(kind) && has_cuda_activation(x))
    return kind == ActivationKind::swiglu ? cuda_swiglu_forward(x) : cuda_gelu_forward(x, kind);
  // The vector loops read flat arrays; strided tensors and other types or devices use LibTorch's operators.
  if (!is_vector_array(x)) return reference::activation_forward(x, kind);
  // Gate and up are read side by side, and one of that width is written.
  const std::int64_t width = is_gated(kind) ? x.size(-1) / 2 : x.size(-1);
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = width;
  const at::Tensor y = at::empty(shape, x.options());
  with_element_of(x, [&]<class Element> {
    activation_loops<Element>(kind).forward({.dy = nullptr,
                                             .x = elements<Element>(x),
                                             .out = mutable_elements<Element>(y),
                                             // Empty tensors have no rows; dividing by their width would be undefined.
                                             .rows = width == 0 ? 0 : y.numel() / width,
                                             .width = width});
  });
  return y;
}

at::Tensor activation_backward(const at::Tensor& dy, const at::Tensor& x, ActivationKind kind) {
  if (has_cuda_backward(dy, x, kind))
    return kind == ActivationKind::swiglu ? cuda_swiglu_backward(dy, x) : cuda_gelu_backward(dy, x, kind);
  if (!is_vector_array(x) || !is_vector_array(dy) || !have_one_type(dy, x))
    return reference::activation_backward(dy, x, kind);
  const std::int64_t width = dy.size(-1);
  const at::Tensor dx = at::empty_like(x);
  with_element_of(x, [&]<class Element> {
    activation_loops<Element>(kind).backward({.dy = elements<Element>(dy),
                                              .x = elements<Element>(x),
                                              .out = mutable_elements<Element>(dx),
                                              .rows = width == 0 ? 0 : dy.numel() / width,
                                              .width = width});
  });
  return dx;
}

at::Tensor gated_forward(const GateAndUp& x, ActivationKind kind) {
  if (kind == ActivationKind::swiglu && has_cuda_gate_and_up(x)) return cuda_swiglu_forward(x);
  return activation_forward(at::cat({x.gate, x.up}, -1), kind);
}

GateAndUp gated_backward(const at::Tensor& dy, const GateAndUp& x, ActivationKind kind) {
  const bool has_kernel = kind == ActivationKind::swiglu && has_cuda_gate_and_up(x);
  if (has_kernel && have_one_type(dy, x.gate) && dy.is_contiguous()) return cuda_swiglu_backward(dy, x);
  const at::Tensor dx = activation_backward(dy, at::cat({x.gate, x.up}, -1), kind);
  const auto halves = dx.chunk(2, -1);
  return {halves[0].contiguous(), halves[1].contiguous()};
}

at::Tensor activation_bias_backward(const at::Tensor& dy, const at::Tensor& x, ActivationKind kind, at::Tensor& dbias,
                                    Accumulation accumulation) {
  if (is_gelu(kind) && has_cuda_backward(dy, x, kind) && has_cuda_backward_bias(x, dbias))
    return cuda_gelu_bias_backward(dy, x, kind, dbias, accumulation);
  at::Tensor dx = activation_backward(dy, x, kind);
  linear_backward_bias(dx, dbias, accumulation);
  return dx;
}

}  // namespace llmtrain::kernels
