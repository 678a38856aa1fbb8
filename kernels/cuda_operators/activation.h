// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace llmtrain::kernels {

// swiglu (kernels/activation.h) on a GPU with the kernels of kernels/cuda/activation_kernels.h: one forward and one
// backward, with no memory beside their results.

// Whether they take x: fp32, bf16 or fp16 without gaps.
bool has_cuda_swiglu(const at::Tensor& x);

at::Tensor cuda_swiglu_forward(const at::Tensor& x);

// dy has x's type.
at::Tensor cuda_swiglu_backward(const at::Tensor& dy, const at::Tensor& x);

}  // namespace llmtrain::kernels
