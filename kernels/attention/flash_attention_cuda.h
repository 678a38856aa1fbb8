// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.h"

namespace llmtrain::kernels {

// Flash attention on a GPU, through LibTorch's kernels, in the variants of them that repeat bitwise: FlashAttention-2
// (Dao, arXiv 2307.08691) for 16-bit heads of at most 256 elements, which reads grouped keys and values where they are,
// and CUTLASS's "memory-efficient" kernel for fp32 and for longer heads, which gets a copy of them per query head.
// Ordered on the current stream; nothing waits for it. Heads that are no multiple of the kernels' alignment are padded
// with zeros, which is a copy.
bool has_cuda_flash_attention(const at::Tensor& query);  // float64 has none

// With documents: whether one call takes them all. CUTLASS's kernel writes nothing for queries without keys, and a part
// of the queries is cut into pieces for a causal mask alone.
bool cuda_takes_documents(const at::Tensor& query, const AttentionCall& call);

// kernels/attention/attention.h. Queries that are a part of their sequences take one call per run of positions where
// they see the keys before them alone. All documents take one call, whose statistics are in the kernel's layout:
// FlashAttention's [heads, B·S_q], CUTLASS's [documents, heads, longest of queries rounded up to 32]; for a part of the
// queries their pieces are these documents, whose keys are copied (kernels/attention/document_pieces.h).
AttentionOutput cuda_flash_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                             const AttentionCall& call);
AttentionGradients cuda_flash_attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                                 const at::Tensor& value, const AttentionOutput& saved,
                                                 const AttentionCall& call);

}  // namespace llmtrain::kernels
