// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/norm.h"

namespace llmtrain::kernels {

// Norms (kernels/norm.h) on a GPU through LibTorch's fused kernels, whose statistics are fp32. They take weights and
// biases of the input's type alone.
bool has_cuda_norm(const at::Tensor& x, const NormParameters& parameters);

NormOutput cuda_norm_forward(const at::Tensor& x, const NormParameters& parameters);

// Another forward: a pass over memory as well, and bitwise the same.
at::Tensor cuda_norm_recompute(const at::Tensor& x, const NormParameters& parameters);

// The gradients of weight and bias are summed in fp32: LibTorch's kernels would round them to the parameters' type.
void cuda_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                        const NormParameters& parameters, at::Tensor& dx, at::Tensor& dweight,
                        std::optional<at::Tensor> dbias);

}  // namespace llmtrain::kernels
