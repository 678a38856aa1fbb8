// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/attention.h"

namespace llmtrain::kernels {

// [B, S, heads, D] → [B, heads, S, D], no copy.
at::Tensor by_head(const at::Tensor& x);
// Repeats every key or value head for the query heads that share it: [B, S, kv, D] → [B, heads, S, D].
at::Tensor share_heads(const at::Tensor& x, std::int64_t heads);
// The gradient of share_heads: sums over the query heads of each group; [B, heads, S, D] → [B, S, kv, D].
at::Tensor sum_shared_heads(const at::Tensor& dx, std::int64_t kv_heads);

// AttentionMethod::math on any device, of calls without documents (kernels/attention/attention.h).
AttentionOutput math_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                       const AttentionCall& call);
AttentionGradients math_attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                           const at::Tensor& value, const AttentionOutput& saved,
                                           const AttentionCall& call);

}  // namespace llmtrain::kernels
