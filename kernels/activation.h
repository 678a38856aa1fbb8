// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/gemm.h"

namespace llmtrain::kernels {

// gelu: x·Φ(x) (Hendrycks and Gimpel, arXiv 1606.08415); gelu_tanh: its tanh approximation, GPT-2's;
// relu: max(x, 0);
// squared_relu: max(x, 0)² (So et al., arXiv 2109.08668). Those with a gate (Shazeer, arXiv 2002.05202):
// swiglu: silu(gate)·up; geglu and geglu_tanh: the gelus of the gate, times up; clamped_swiglu: g·σ(1.702g)·(u + 1) of
// g = min(gate, 7) and u = up between -7 and 7, GPT-OSS's (OpenAI, arXiv 2508.10925), whose slope is 0 beyond.
enum class ActivationKind { gelu, gelu_tanh, relu, squared_relu, swiglu, geglu, geglu_tanh, clamped_swiglu };

constexpr bool is_gated(ActivationKind kind) {
  return kind != ActivationKind::gelu && kind != ActivationKind::gelu_tanh && kind != ActivationKind::relu &&
         kind != ActivationKind::squared_relu;
}

// x is [T, F], or [T, 2F] of what has a gate: gate in the first F columns, up in the last. Returns [T, F].
at::Tensor activation_forward(const at::Tensor& x, ActivationKind kind);

// Gradient at the saved input x for dy [T, F]; shaped as x.
at::Tensor activation_backward(const at::Tensor& dy, const at::Tensor& x, ActivationKind kind);

// The same where gate and up [T, F] each lie by themselves, without gaps: as products make them that do not run as one.
// On a GPU with kernels swiglu's reads them so; elsewhere they are joined first.
struct GateAndUp {
  at::Tensor gate, up;
};
at::Tensor gated_forward(const GateAndUp& x, ActivationKind kind);
GateAndUp gated_backward(const at::Tensor& dy, const GateAndUp& x, ActivationKind kind);

// activation_backward() where a bias was added to make x: dbias = or += the sums of the result's columns, as
// linear_backward_bias() makes them (kernels/gemm.h).
at::Tensor activation_bias_backward(const at::Tensor& dy, const at::Tensor& x, ActivationKind kind, at::Tensor& dbias,
                                    Accumulation accumulation);

}  // namespace llmtrain::kernels
