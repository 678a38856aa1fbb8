// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/operators.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

#include <vector>

#include "kernels/vector/activation.h"

namespace llmtrain::kernels::reference {
namespace {

const char* approximation(ActivationKind kind) {
  return kind == ActivationKind::gelu_tanh || kind == ActivationKind::geglu_tanh ? "tanh" : "none";
}

constexpr double limit = vector::clamped_swiglu_limit, steepness = vector::clamped_swiglu_steepness;

// g·σ(1.702g) of the clamped gate.
struct ClampedGate {
  at::Tensor value, sigmoid, activated;
};

ClampedGate clamped_gate(const at::Tensor& gate) {
  const at::Tensor value = gate.clamp_max(limit), sigmoid = (value * steepness).sigmoid();
  return {value, sigmoid, value * sigmoid};
}

at::Tensor clamped_up(const at::Tensor& up) { return up.clamp(-limit, limit) + 1; }

at::Tensor gate_forward(const at::Tensor& gate, ActivationKind kind) {
  if (kind == ActivationKind::swiglu) return at::silu(gate);
  return kind == ActivationKind::clamped_swiglu ? clamped_gate(gate).activated : at::gelu(gate, approximation(kind));
}

at::Tensor gate_backward(const at::Tensor& dgated, const at::Tensor& gate, ActivationKind kind) {
  if (kind == ActivationKind::swiglu) return at::silu_backward(dgated, gate);
  if (kind != ActivationKind::clamped_swiglu) return at::gelu_backward(dgated, gate, approximation(kind));
  const auto [value, sigmoid, activated] = clamped_gate(gate);
  const at::Tensor slope = sigmoid + activated * steepness * (1 - sigmoid);
  return dgated * slope * (gate <= limit);
}

}  // namespace

at::Tensor activation_forward(const at::Tensor& x, ActivationKind kind) {
  if (kind == ActivationKind::relu) return x.clamp_min(0);
  if (kind == ActivationKind::squared_relu) return x.clamp_min(0).square();
  if (!is_gated(kind)) return at::gelu(x, approximation(kind));
  const std::vector<at::Tensor> halves = x.chunk(2, -1);
  return gate_forward(halves[0], kind) * (kind == ActivationKind::clamped_swiglu ? clamped_up(halves[1]) : halves[1]);
}

at::Tensor activation_backward(const at::Tensor& dy, const at::Tensor& x, ActivationKind kind) {
  if (kind == ActivationKind::relu) return at::where(x.isnan(), x, dy * (x > 0));
  if (kind == ActivationKind::squared_relu) return dy * 2 * x.clamp_min(0);
  if (!is_gated(kind)) return at::gelu_backward(dy, x, approximation(kind));
  const std::vector<at::Tensor> halves = x.chunk(2, -1);
  const bool is_clamped = kind == ActivationKind::clamped_swiglu;
  const at::Tensor up = is_clamped ? clamped_up(halves[1]) : halves[1];
  const at::Tensor dgate = gate_backward(dy * up, halves[0], kind), dup = dy * gate_forward(halves[0], kind);
  // The gradients of gate and up side by side, as x has them.
  return at::cat(std::vector<at::Tensor>{dgate, is_clamped ? dup * (halves[1].abs() <= limit) : dup}, -1);
}

}  // namespace llmtrain::kernels::reference
