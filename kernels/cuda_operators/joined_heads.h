// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/joined_heads.h"

namespace llmtrain::kernels {

// join_heads() on a GPU with the kernel of kernels/cuda/joined_heads_kernels.h, in one pass over the gradients and with
// no memory beside.

// Whether it takes them: fp32, bf16 or fp16, heads of an even number of elements, tokens at even distances.
bool has_cuda_join_heads(const HeadGradients& gradients, const RopeTable* table, const at::Tensor& joined);

void cuda_join_heads(const HeadGradients& gradients, const RopeTable* table, std::int64_t sequence_length,
                     const at::Tensor& joined);

}  // namespace llmtrain::kernels
