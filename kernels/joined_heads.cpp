// SPDX-License-Identifier: Apache-2.0
#include "kernels/joined_heads.h"

#include "kernels/cuda_operators/joined_heads.h"

namespace llmtrain::kernels {

void join_heads(const HeadGradients& gradients, const RopeTable* table, std::int64_t sequence_length,
                const at::Tensor& joined) {
  if (has_cuda_join_heads(gradients, table, joined)) {
    cuda_join_heads(gradients, table, sequence_length, joined);
    return;
  }
  const std::int64_t heads = gradients.query.size(2), kv_heads = gradients.key.size(2);
  joined.narrow(2, 0, heads).copy_(gradients.query);
  joined.narrow(2, heads, kv_heads).copy_(gradients.key);
  joined.narrow(2, heads + kv_heads, kv_heads).copy_(gradients.value);
  if (table == nullptr) return;
  at::Tensor rotated = joined.view({-1, joined.size(2), joined.size(3)}).narrow(1, 0, heads + kv_heads);
  rope_(rotated, *table, sequence_length, RopeDirection::backward);
}

}  // namespace llmtrain::kernels
