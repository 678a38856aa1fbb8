// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/moe/load_importance.h"

namespace llmtrain::kernels {

// The load-importance loss (kernels/moe/load_importance.h) on a GPU with the kernels of
// kernels/cuda/moe/load_importance_kernels.h: one each.

// Whether they take the logits [T, E]: fp32 without gaps.
bool has_cuda_load_importance(const at::Tensor& logits);

LoadImportanceTokens cuda_load_importance(const at::Tensor& logits, const at::Tensor& noisy, const at::Tensor& experts,
                                          double deviation);
at::Tensor cuda_with_load_importance(const at::Tensor& totals, const at::Tensor& partials);
at::Tensor cuda_load_importance_loss(const at::Tensor& sums, const at::Tensor& loss);
void cuda_add_load_importance_gradient(const at::Tensor& dlogits, const LoadImportance& kept, const at::Tensor& slopes,
                                       const at::Tensor& experts, double scale);

}  // namespace llmtrain::kernels
