// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/norm.h"

// The operations of kernels/norm.h with LibTorch's operators: any dtype, any device, any strides.
namespace llmtrain::kernels::reference {

NormOutput norm_forward(const at::Tensor& x, const NormParameters& parameters);
NormOutput add_norm_forward(at::Tensor& residual, const at::Tensor& x, const NormParameters& parameters);
at::Tensor norm_recompute(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                          const NormParameters& parameters);
void norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                   const NormParameters& parameters, at::Tensor& dx, at::Tensor& dweight,
                   std::optional<at::Tensor> dbias);

}  // namespace llmtrain::kernels::reference
