// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>

#include "core/model/layers/context_ranks.h"
#include "kernels/attention/cached_attention.h"
#include "kernels/rope.h"

namespace llmtrain {

// What attention remembers of sequences that grow token by token: the keys and values of every layer on this rank, so
// that a pass computes new tokens alone. A pass may have tokens of many sequences, each at its own position; the pass's
// context names the cache and has its tokens as one sequence. Memory is taken at a layer's first use, for all
// sequences at their capacity: 2 · kv_heads · D elements of the compute type per token.
class KeyValueCache {
 public:
  // `capacity`: the tokens of each sequence.
  KeyValueCache(std::int64_t sequences, std::int64_t capacity) : sequences_(sequences), capacity_(capacity) {}

  // Begins a pass over one token per place (kernels::cached_attention() says which places may follow each other, and
  // which tensors come with them).
  void start(kernels::CachedTokens tokens);

  // The rows of a table [positions, …] for the pass's tokens.
  at::Tensor rows_of(const at::Tensor& table) const { return table.index_select(0, tokens_.positions); }
  // The rotations at the positions of the pass's tokens, made once in a pass for each table.
  const kernels::RopeTable& rotations_of(const kernels::RopeTable& table);

  // Stores `own` of the pass's tokens and returns their attention [1, T, heads, D]; query is [1, T, heads, D].
  at::Tensor attend(std::int64_t layer, const at::Tensor& query, const KeysAndValues& own,
                    const kernels::CachedAttentionCall& call);

  // Makes the first `tokens` tokens of a sequence those of another one.
  void copy(std::int64_t from, std::int64_t to, std::int64_t tokens);

 private:
  kernels::KeyValueMemory& memory_of(std::int64_t layer, const at::Tensor& key);

  std::int64_t sequences_, capacity_;
  kernels::CachedTokens tokens_;
  std::map<const kernels::RopeTable*, kernels::RopeTable> rotations_;
  std::map<std::int64_t, kernels::KeyValueMemory> layers_;
};

}  // namespace llmtrain
