// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/cross_entropy.h"

namespace llmtrain::kernels {

// Cross-entropy (kernels/cross_entropy.h) on a GPU with the kernels of kernels/cuda/cross_entropy_kernels.h: one each,
// with no memory beside their results.

// Whether they take these: fp32, bf16 or fp16 without gaps.
bool has_cuda_cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

at::Tensor cuda_cross_entropy_forward(const at::Tensor& logits, const at::Tensor& targets);
at::Tensor cuda_cross_entropy_forward_backward_(at::Tensor& logits, const at::Tensor& targets, double scale);
at::Tensor cuda_cross_entropy_statistics(const at::Tensor& logits, const at::Tensor& targets,
                                         const VocabularySlice& slice);
void cuda_cross_entropy_backward_(at::Tensor& logits, const at::Tensor& targets, const VocabularySlice& slice,
                                  const at::Tensor& statistics, double scale);

}  // namespace llmtrain::kernels
