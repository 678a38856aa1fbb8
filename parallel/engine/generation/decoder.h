// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/model/key_value_cache.h"
#include "core/model/moe/pass_routing.h"
#include "parallel/engine/forward_pass.h"
#include "parallel/engine/local_model.h"

namespace llmtrain {

// New tokens of one sequence, after those that the decoder already has of it.
struct NewTokens {
  std::int64_t sequence = 0;
  std::int64_t position = 0;  // of the first of them
  std::span<const std::int64_t> tokens;
  // In an encoder-decoder, with a sequence's first tokens: what its encoder reads, in place of the source that the
  // sequence had. One piece of a pass has one at most.
  std::span<const std::int64_t> source{};
};

// Throws Error(bad_data) for an id that is not in the vocabulary.
void check_tokens(std::span<const std::int64_t> tokens, std::int64_t vocabulary);

// The model with a memory of the sequences that it is given piece by piece: each pass costs the new tokens' work alone.
// The ranks of the model share a pass; all make the same calls. Ranks may split layers (tensor), hold different layers
// (pipeline) or copies (data), at every ZeRO stage. Throws Error(internal_error) where ranks split the sequences,
// and Error(bad_recipe) that names the key where keys and values are not kept in this type: int8 and FP8 are for
// decoders on processors.
class Decoder {
 public:
  // For this many sequences of up to `capacity` tokens, of which a pass has at most max_sequence_length. The model
  // outlives this.
  Decoder(LocalModel& model, std::int64_t sequences, std::int64_t capacity, KeyValueType type = KeyValueType::compute);
  // For sequences that share blocks, on a processor: cache() has their tables.
  Decoder(LocalModel& model, const KeyValueCache::Pages& pages);

  enum class Rows { last, all, apart };
  // fp32 logits on the CPU, on ranks that hold the head, else undefined: [pieces, V] after the last token of each
  // piece, or [tokens, V] after each token. Experts drop no token. Waits for a GPU once. Where each piece has one
  // token, what a processor computes of it has the same bits whatever pieces are beside it;
  // with `apart`, each token has these bits. Throws Error(bad_data) for an id that is not in the vocabulary.
  at::Tensor logits(std::span<const NewTokens> pieces, Rows rows = Rows::last);

  // Takes in the next part of a prompt, whose first `begin` tokens the decoder has already of the sequence: on a
  // processor up to prompt_chunk tokens, with nothing beside them, so that their numbers depend on the prompt alone; on
  // a GPU, and where products are of FP8 numbers and rows not apart, all. `begin` is a multiple of prompt_chunk.
  // Returns how many tokens of the prompt it has then; with the last sets `logits` as logits() does.
  static constexpr std::int64_t prompt_chunk = StreamedWeights::prompt_chunk;
  std::int64_t read_prompt(std::int64_t sequence, std::span<const std::int64_t> prompt, std::int64_t begin,
                           at::Tensor& logits);

  // Takes the pieces in, and asks for nothing that follows them: nobody waits for a GPU.
  void read(std::span<const NewTokens> pieces) { pass(pieces, Rows::last); }

  // After each token of the pieces log P(the one of `following` at its place), in nats and float64 on the CPU, where
  // logits() has logits. A GPU's logits stay there, and it is waited for once.
  at::Tensor log_probabilities(std::span<const NewTokens> pieces, std::span<const std::int64_t> following);

  // Makes the first tokens of sequences, and their sources, those of others: all are read before one is written.
  void copy(std::span<const KeyValueCache::Copy> copies) { cache_.copy(copies); }

  KeyValueCache& cache() { return cache_; }

  // Whether passes from now on record their tokens' experts, of all layers and rows: ranks that share the model tell
  // each other of theirs. The same on all ranks.
  void record_routing(bool records);
  // The experts in the last pass, whose rows are its pieces' tokens. Only while passes record them.
  const PassRouting& routing() const { return routing_.value(); }

  // Whether this rank has logits and is the one whose word counts: its own, where it has the model for itself.
  bool decides() const;
  // That rank's values, on all ranks; the others' are ignored. Blocks.
  std::vector<double> agree(std::vector<double> values) const;

 private:
  // Where the model is. Rows of no sequence are added until `divisor` divides their number.
  at::Tensor pass(std::span<const NewTokens> pieces, Rows rows, std::int64_t divisor = 1);
  // Makes of what this rank has recorded of a pass over so many rows what all ranks have.
  void share_routing(std::int64_t rows);

  LocalModel& model_;
  KeyValueCache cache_;
  ForwardPass pass_;
  std::optional<PassRouting> routing_;
};

}  // namespace llmtrain
