// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

#include "kernels/attention/attention.h"

namespace llmtrain::kernels {

// Memory of the keys and values of several sequences, [sequences, kv_heads, capacity, D] each. A head's keys are
// consecutive, because a token reads all of them.
struct KeyValueMemory {
  at::Tensor key, value;
};

// Where a token's key and value are in that memory.
struct CachePlace {
  std::int64_t sequence = 0;  // negative: of no sequence; its row only pads the others
  std::int64_t position = 0;
};

// Causal self-attention of tokens whose sequences began in earlier calls. query [T, heads, D], key and value
// [T, kv_heads, D], with any strides except that the last axis is contiguous; places [T]. Tokens of one sequence are
// adjacent and at consecutive positions, and the memory holds what is before them. Stores keys and values and returns
// [T, heads, D], zero for tokens of no sequence. Groups of heads as in attention_forward().
at::Tensor cached_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            std::span<const CachePlace> places, KeyValueMemory& memory, AttentionMethod method);

}  // namespace llmtrain::kernels
