// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/gemm.h"

namespace llmtrain::kernels {

// gelu: x·Φ(x) (Hendrycks and Gimpel, arXiv 1606.08415); gelu_tanh: its tanh approximation, GPT-2's;
// swiglu: silu(gate)·up (Shazeer, arXiv 2002.05202).
enum class ActivationKind { gelu, gelu_tanh, swiglu };

// x is [T, F] for the gelus. For swiglu it is [T, 2F]: gate in the first F columns, up in the last. Returns [T, F].
at::Tensor activation_forward(const at::Tensor& x, ActivationKind kind);

// Gradient at the saved input x for dy [T, F]; shaped as x.
at::Tensor activation_backward(const at::Tensor& dy, const at::Tensor& x, ActivationKind kind);

// swiglu where gate and up [T, F] each lie by themselves, without gaps: as products make them that do not run as one.
// On a GPU with kernels one reads them so; elsewhere they are joined first.
struct GateAndUp {
  at::Tensor gate, up;
};
at::Tensor swiglu_forward(const GateAndUp& x);
GateAndUp swiglu_backward(const at::Tensor& dy, const GateAndUp& x);

// activation_backward() where a bias was added to make x: dbias = or += the sums of the result's columns, as
// linear_backward_bias() makes them (kernels/gemm.h).
at::Tensor activation_bias_backward(const at::Tensor& dy, const at::Tensor& x, ActivationKind kind, at::Tensor& dbias,
                                    Accumulation accumulation);

}  // namespace llmtrain::kernels
