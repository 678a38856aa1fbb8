// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.h"

namespace llmtrain::kernels {

// Flash attention for the CPU, fp32 and bf16 (kernels/attention/attention.h). Each block of queries is multiplied only
// with the keys that it can see, which skips half of the products of causal attention, and a thread holds at most block
// × S scores (Dao et al., arXiv 2205.14135; the backward recomputes the probabilities from the log-sum-exp, section 3.1
// there). Gradients of keys and values are summed in fp32, in an order that does not depend on the number of threads.
bool has_cpu_flash_attention(const at::Tensor& query);
AttentionOutput cpu_flash_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                            const AttentionCall& call);
AttentionGradients cpu_flash_attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                                const at::Tensor& value, const AttentionOutput& saved,
                                                const AttentionCall& call);

// Flash attention through LibTorch's kernels for the CPU, in every type that they support. They have two masks: none,
// and a causal one whose first query sees the first key only. Queries that start at a later position are therefore
// computed as unmasked attention over the keys before them and causal attention over their own keys, combined through
// their log-sum-exps in fp32 or wider (Dao et al., arXiv 2205.14135, section 3.1). Keys and values have as many heads
// as the query, all [B, heads, S, D].
AttentionOutput library_flash_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                                const AttentionCall& call);
AttentionGradients library_flash_attention_backward(const at::Tensor& dout, const at::Tensor& query,
                                                    const at::Tensor& key, const at::Tensor& value,
                                                    const AttentionOutput& saved, const AttentionCall& call);

}  // namespace llmtrain::kernels
