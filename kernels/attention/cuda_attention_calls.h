// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_attention_cuda.h"

namespace llmtrain::kernels {

// One call of a kernel: causal attention of [B, S_q, heads, D] to [B, S, kv_heads, D], where the last query sees the
// last key. With documents, each is a sequence of its own. Heads are multiples of 16 bytes, padded behind the
// `head_dim` elements that count.
struct CudaAttentionCall {
  at::Tensor query, key, value;
  std::int64_t head_dim;
  const DocumentStarts* documents;  // null: none; outlives the call

  // FlashAttention has no fp32 and no longer heads.
  bool is_flash() const;
};

AttentionOutput call_flash(const CudaAttentionCall& x);
AttentionGradients call_flash_backward(const at::Tensor& dout, const CudaAttentionCall& x,
                                       const AttentionOutput& saved);

AttentionOutput call_efficient(const CudaAttentionCall& x);
AttentionGradients call_efficient_backward(const at::Tensor& dout, const CudaAttentionCall& x,
                                           const AttentionOutput& saved);

}  // namespace llmtrain::kernels
