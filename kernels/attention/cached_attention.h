// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/attention/attention.h"

namespace llmtrain::kernels {

// Memory of the keys and values of several sequences, in blocks of some tokens each: [blocks, kv_heads, tokens, D]. A
// block's keys of one head are consecutive, because a token reads all of them. (Kwon et al., arXiv 2309.06180, section
// 4.1.)
struct KeyValueMemory {
  at::Tensor key, value;
  // [blocks, kv_heads, tokens], fp32: what each row of these is multiplied by where they are int8 or FP8 (E4M3; on the
  // CPU, as vector::ByteRowLoops::quantize() has it), else undefined. A scale for each token and head, so that what is
  // stored of a token does not depend on those after it. (Per token, as KIVI's values, Liu et al., arXiv 2402.02750.)
  at::Tensor key_scales{}, value_scales{};

  bool is_scaled() const { return key_scales.defined(); }
};

// Where a token's key and value are in that memory.
struct CachePlace {
  std::int64_t sequence = 0;  // negative: of no sequence; its row only pads the others
  std::int64_t position = 0;
};

// The tokens of a pass, the same for all of its layers.
struct CachedTokens {
  std::vector<CachePlace> places;   // [T]
  at::Tensor sequences, positions;  // of the places, int64 [T], where the tokens are
  at::Tensor unseen;                // of cached_attention() on a GPU, which makes it in the pass's first layer
  // The blocks of each sequence, in the order of its tokens: on the CPU, and blocks of a multiple of four tokens.
  // Empty: each sequence has the block of its own number. Outlive the pass.
  std::span<const std::vector<std::int64_t>> blocks{};
};

// How tokens attend; the fields are AttentionCall's.
struct CachedAttentionCall {
  AttentionMethod method = AttentionMethod::flash;
  std::optional<std::int64_t> window{};  // on the CPU
  std::optional<double> scale{};
  at::Tensor sinks{};  // on the CPU
  // [heads, T, keys], added to the scaled scores of the pass's tokens with keys at these positions; keys that nobody
  // sees yet may have one, too.
  at::Tensor bias{};
};

// Causal self-attention of tokens whose sequences began in earlier calls. query [T, heads, D], key and value
// [T, kv_heads, D], with any strides except that the last axis is contiguous. Tokens of one sequence are adjacent and
// at consecutive positions, tokens of no sequence behind all others, and the memory holds what is before them and
// finite numbers elsewhere. Stores keys and values, attends to them as they are stored, and returns [T, heads, D], zero
// for tokens of no sequence. Groups of heads as in attention_forward(). What a single token gets on the CPU has the
// same bits whatever tokens are beside it and however blocks are divided. On a GPU nobody waits, and one token of each
// of many sequences costs the launches of one: two, for heads of up to 256 elements in fp32, bf16 or fp16.
at::Tensor cached_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            CachedTokens& tokens, KeyValueMemory& memory, const CachedAttentionCall& call);

}  // namespace llmtrain::kernels
