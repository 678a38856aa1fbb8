// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/norm.h"

namespace llmtrain::kernels {

// Norms (kernels/norm.h) on a GPU with the kernels of kernels/cuda/norm_kernels.h, whose statistics are fp32.

// Whether they take x: fp32, bf16 or fp16, with a weight and a bias of its type, and not too wide.
bool has_cuda_norm(const at::Tensor& x, const NormParameters& parameters);

NormOutput cuda_norm_forward(const at::Tensor& x, const NormParameters& parameters);

// residual must be contiguous.
NormOutput cuda_add_norm_forward(at::Tensor& residual, const at::Tensor& x, const NormParameters& parameters);

// Another forward: a pass over memory as well, and bitwise the same.
at::Tensor cuda_norm_recompute(const at::Tensor& x, const NormParameters& parameters);

// x has rows. The gradients of weight and bias are summed in fp32, and written in place where theirs are.
void cuda_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                        const NormParameters& parameters, at::Tensor& dx, at::Tensor& dweight,
                        std::optional<at::Tensor> dbias, Accumulation accumulation);

}  // namespace llmtrain::kernels
