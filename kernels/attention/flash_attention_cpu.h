// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.h"

namespace llmtrain::kernels {

// Flash attention for the CPU, fp32 and bf16 (kernels/attention/attention.h): a block of queries at a time against the
// keys that it can see, so that half of the products fall away and no more than block × S scores exist on a thread (Dao
// et al., arXiv 2205.14135; the backward makes the probabilities again from the log-sum-exp, section 3.1 there).
// Gradients of keys and values are summed in fp32, in an order that does not depend on the number of threads.
bool has_cpu_flash_attention(const at::Tensor& query);
AttentionOutput cpu_flash_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                            const SequencePart& queries);
AttentionGradients cpu_flash_attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                                const at::Tensor& value, const AttentionOutput& saved,
                                                const SequencePart& queries);

}  // namespace llmtrain::kernels
