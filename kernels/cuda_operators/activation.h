// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/activation.h"

namespace llmtrain::kernels {

// swiglu (kernels/activation.h) on a GPU with the kernels of kernels/cuda/activation_kernels.h: one forward and one
// backward, with no memory beside their results.

// Whether they, or those of the gelus, take x: fp32, bf16 or fp16 without gaps.
bool has_cuda_activation(const at::Tensor& x);

at::Tensor cuda_swiglu_forward(const at::Tensor& x);

// dy has x's type.
at::Tensor cuda_swiglu_backward(const at::Tensor& dy, const at::Tensor& x);

// The same of gate and up that each lie by themselves, of one type and without gaps.
bool has_cuda_gate_and_up(const GateAndUp& x);
at::Tensor cuda_swiglu_forward(const GateAndUp& x);
GateAndUp cuda_swiglu_backward(const at::Tensor& dy, const GateAndUp& x);

// The gelus likewise with the kernels of kernels/cuda/gelu_kernels.h.
at::Tensor cuda_gelu_forward(const at::Tensor& x, ActivationKind kind);

// dy has x's type.
at::Tensor cuda_gelu_backward(const at::Tensor& dy, const at::Tensor& x, ActivationKind kind);

// The same, and dbias = or += the sums of its columns; both must be what has_cuda_backward_bias() takes (bias.h).
at::Tensor cuda_gelu_bias_backward(const at::Tensor& dy, const at::Tensor& x, ActivationKind kind,
                                   const at::Tensor& dbias, Accumulation accumulation);

}  // namespace llmtrain::kernels
