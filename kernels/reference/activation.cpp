// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/operators.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

#include <vector>

namespace llmtrain::kernels::reference {
namespace {

const char* approximation(ActivationKind kind) { return kind == ActivationKind::gelu_tanh ? "tanh" : "none"; }

}  // namespace

at::Tensor activation_forward(const at::Tensor& x, ActivationKind kind) {
  if (kind != ActivationKind::swiglu) return at::gelu(x, approximation(kind));
  const std::vector<at::Tensor> halves = x.chunk(2, -1);
  return at::silu(halves[0]) * halves[1];
}

at::Tensor activation_backward(const at::Tensor& dy, const at::Tensor& x, ActivationKind kind) {
  if (kind != ActivationKind::swiglu) return at::gelu_backward(dy, x, approximation(kind));
  const std::vector<at::Tensor> halves = x.chunk(2, -1);
  // The gradients of gate and up side by side, as x has them.
  return at::cat(std::vector<at::Tensor>{at::silu_backward(dy * halves[1], halves[0]), dy * at::silu(halves[0])}, -1);
}

}  // namespace llmtrain::kernels::reference
