// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/attention/flash_attention_cuda.h"

namespace llmtrain::kernels {

// Where the rows of all sequences, [B·S, …], are those of documents, one after another: int32 [documents + 1], on the
// device.
struct DocumentStarts {
  at::Tensor starts;
  std::int64_t longest;
};

// One call of a kernel: attention of [B, S_q, heads, D] to [B, S, kv_heads, D]. Causal: the last query sees the last
// key. With documents, each is a sequence of its own. Heads are multiples of 16 bytes, padded behind the `head_dim`
// elements that count.
struct CudaAttentionCall {
  at::Tensor query, key, value;
  std::int64_t head_dim;
  double scale;
  bool is_causal;
  std::optional<DocumentStarts> queries, keys;  // their documents: both or neither
  bool by_cudnn = false;
};

// FlashAttention has no fp32 and no longer heads.
bool has_flash(const at::Tensor& query);

AttentionOutput call_flash(const CudaAttentionCall& x);
AttentionGradients call_flash_backward(const at::Tensor& dout, const CudaAttentionCall& x,
                                       const AttentionOutput& saved);

// cuDNN's kernel: of 16 bits, of heads of at most 128 elements, without documents.
AttentionOutput call_cudnn(const CudaAttentionCall& x);
AttentionGradients call_cudnn_backward(const at::Tensor& dout, const CudaAttentionCall& x,
                                       const AttentionOutput& saved);

AttentionOutput call_efficient(const CudaAttentionCall& x);
AttentionGradients call_efficient_backward(const at::Tensor& dout, const CudaAttentionCall& x,
                                           const AttentionOutput& saved);

}  // namespace llmtrain::kernels
