// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/activation.h"
#include "kernels/embedding.h"
#include "kernels/moe/dispatch.h"
#include "kernels/norm.h"
#include "kernels/rope.h"

// The operations of kernels/ with LibTorch's operators: any dtype, any device; norms take any strides.
namespace llmtrain::kernels::reference {

at::Tensor activation_forward(const at::Tensor& x, ActivationKind kind);
at::Tensor activation_backward(const at::Tensor& dy, const at::Tensor& x, ActivationKind kind);

at::Tensor embedding_forward(const at::Tensor& tokens, const at::Tensor& table,
                             const std::optional<at::Tensor>& positions, std::int64_t sequence_length);
void embedding_backward(const at::Tensor& dy, const at::Tensor& tokens, at::Tensor& dtable,
                        std::optional<at::Tensor> dpositions, std::int64_t sequence_length);

// Maps as of a GPU, wherever the tensors are: with `ends` and without offsets.
TopExperts top_experts(const at::Tensor& scores, std::int64_t k);
ExpertRows assign_rows(const at::Tensor& experts, std::int64_t count, std::optional<std::int64_t> capacity,
                       const std::optional<at::Tensor>& scores = std::nullopt);

at::Tensor dispatch_forward(const at::Tensor& x, const ExpertRows& map);
at::Tensor dispatch_backward(const at::Tensor& drows, const ExpertRows& map);
at::Tensor combine_forward(const at::Tensor& rows, const at::Tensor& gates, const ExpertRows& map);
CombineGradients combine_backward(const at::Tensor& dy, const at::Tensor& rows, const at::Tensor& gates,
                                  const ExpertRows& map);

NormOutput norm_forward(const at::Tensor& x, const NormParameters& parameters);
at::Tensor norm_recompute(const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                          const NormParameters& parameters);
void norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& rstd,
                   const NormParameters& parameters, at::Tensor& dx, at::Tensor& dweight,
                   std::optional<at::Tensor> dbias);

void rope_(at::Tensor& x, const RopeTable& table, std::int64_t sequence_length, RopeDirection direction);

}  // namespace llmtrain::kernels::reference
