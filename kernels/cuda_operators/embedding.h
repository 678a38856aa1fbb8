// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace llmtrain::kernels {

// Gradients of embeddings (kernels/embedding.h) on a GPU with the kernel of kernels/cuda/embedding_kernels.h, which
// adds the rows of one token in their order.

// Whether it takes them: dy of fp32, bf16 or fp16 and gradients of fp32, without gaps.
bool has_cuda_embedding_backward(const at::Tensor& dy, const at::Tensor& dtable,
                                 const std::optional<at::Tensor>& dpositions);

// Tokens must be rows of the table; the forward has looked them up.
void cuda_embedding_backward(const at::Tensor& dy, const at::Tensor& tokens, const at::Tensor& dtable,
                             const std::optional<at::Tensor>& dpositions, std::int64_t sequence_length);

}  // namespace llmtrain::kernels
