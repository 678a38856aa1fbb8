// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <vector>

#include "kernels/cuda_operators/activation.h"
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
    case ActivationKind::swiglu:
      break;
  }
  return kernels.swiglu;
}

}  // namespace

at::Tensor activation_forward(const at::Tensor& x, ActivationKind kind) {
  if (kind == ActivationKind::swiglu && has_cuda_swiglu(x)) return cuda_swiglu_forward(x);
  // The vector loops read flat arrays; strided tensors and other types or devices use LibTorch's operators.
  if (!is_vector_array(x)) return reference::activation_forward(x, kind);
  // swiglu reads gate and up side by side and writes one of that width.
  const std::int64_t width = kind == ActivationKind::swiglu ? x.size(-1) / 2 : x.size(-1);
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
  // Kernels and loops have one element type for gradient and input.
  const bool same_type = dy.scalar_type() == x.scalar_type();
  if (kind == ActivationKind::swiglu && same_type && dy.is_contiguous() && has_cuda_swiglu(x))
    return cuda_swiglu_backward(dy, x);
  if (!is_vector_array(x) || !is_vector_array(dy) || !same_type) return reference::activation_backward(dy, x, kind);
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

}  // namespace llmtrain::kernels
