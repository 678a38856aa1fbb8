// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/model/layers/context_ranks.h"
#include "core/recipe/key_value_type.h"
#include "kernels/attention/cached_attention.h"
#include "kernels/rope.h"

namespace llmtrain {

// What a token's keys and values of one layer take, scales included, where an element of the compute type takes so
// much.
std::int64_t key_value_bytes(KeyValueType type, std::int64_t kv_heads, std::int64_t head_dim,
                             std::int64_t compute_bytes);

// What attention remembers of sequences that grow token by token: the keys and values of every layer on this rank, so
// that a pass computes new tokens alone. A pass may have tokens of many sequences, each at its own position; the pass's
// context names the cache and has its tokens as one sequence. Memory is taken at a layer's first use, for all blocks:
// key_value_bytes() per token. Where a decoder also attends to the source of a sequence,
// its keys and values are held once for all sequences that share it, as long as one does.
class KeyValueCache {
 public:
  // `capacity`: the tokens of each sequence, which has a block of its own.
  KeyValueCache(std::int64_t sequences, std::int64_t capacity, KeyValueType type)
      : type_(type), blocks_(sequences), block_tokens_(capacity), sources_(static_cast<std::size_t>(sequences)) {}

  // Sequences whose tokens are in blocks that they share: each in those that its table names, in their order. On the
  // CPU.
  struct Pages {
    std::int64_t sequences = 0;
    std::int64_t blocks = 0;
    std::int64_t block_tokens = 16;  // a multiple of four
    KeyValueType type = KeyValueType::compute;
  };
  explicit KeyValueCache(const Pages& pages)
      : type_(pages.type),
        blocks_(pages.blocks),
        block_tokens_(pages.block_tokens),
        tables_(static_cast<std::size_t>(pages.sequences)),
        sources_(static_cast<std::size_t>(pages.sequences)) {}

  // The sequence's blocks, which whoever manages them lends it.
  std::vector<std::int64_t>& table(std::int64_t sequence) { return tables_[static_cast<std::size_t>(sequence)]; }

  // Begins a pass over one token per place (kernels::cached_attention() says which places may follow each other, and
  // which tensors come with them). `of_source`: the sequence whose source comes with this pass, in place of the one
  // that it has.
  void start(kernels::CachedTokens tokens, std::optional<std::int64_t> of_source = {});

  // Positions from 0 on of which some hold all tokens of the pass's sequences: in steps, so that shapes change seldom.
  std::int64_t positions_at_hand() const;

  // The rows of a table [positions, …] for the pass's tokens.
  at::Tensor rows_of(const at::Tensor& table) const { return table.index_select(0, tokens_.positions); }
  // The rotations at the positions of the pass's tokens, made once in a pass for each table.
  const kernels::RopeTable& rotations_of(const kernels::RopeTable& table);

  // Stores `own` of the pass's tokens and returns their attention [1, T, heads, D]; query is [1, T, heads, D].
  at::Tensor attend(std::int64_t layer, const at::Tensor& query, const KeysAndValues& own,
                    const kernels::CachedAttentionCall& call);

  // Attention to the sources of the tokens' sequences, [1, T, heads, D] as query. `own`: the keys and values [1, S, …]
  // of the source that comes with the pass, of no rows without one.
  at::Tensor attend_source(std::uint64_t site, const at::Tensor& query, const KeysAndValues& own,
                           std::optional<double> scale);

  // Makes the first `tokens` tokens of a sequence, and its source, those of another one.
  struct Copy {
    std::int64_t from = 0, to = 0, tokens = 0;
  };
  // All are read before one is written. For sequences that have a block each.
  void copy(std::span<const Copy> copies);

 private:
  // Keys and values of a source, by the attention that reads them.
  using Source = std::map<std::uint64_t, KeysAndValues>;

  kernels::KeyValueMemory& memory_of(std::int64_t layer, const at::Tensor& key);

  KeyValueType type_;
  std::int64_t blocks_, block_tokens_;
  std::vector<std::vector<std::int64_t>> tables_;  // none: each sequence has its block
  std::vector<std::shared_ptr<Source>> sources_;   // by sequence
  std::optional<std::int64_t> of_source_;
  kernels::CachedTokens tokens_;
  std::map<const kernels::RopeTable*, kernels::RopeTable> rotations_;
  std::map<std::int64_t, kernels::KeyValueMemory> layers_;
};

}  // namespace llmtrain
