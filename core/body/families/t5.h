// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/body/body.h"
#include "core/body/parts/relative_bias.h"

namespace llmtrain::body {

// T5 (Raffel et al., arXiv 1910.10683), as transformers has it: norms without mean, no biases, scores that are not
// scaled. T5 1.1 gates with gelu_tanh and has an output head of its own.
struct T5Model {
  std::int64_t hidden = 512, heads = 8, head_dim = 64, width = 2048;
  std::int64_t buckets = 32, most_distance = 128;
  ElementwiseKind activation = ElementwiseKind::relu;
  bool is_gated = false;
  double epsilon = 1e-6;
  double dropout = 0.1;
  double attention_dropout = 0.1;
};

// How a layer of the encoder or of the decoder sees distances.
RelativeBuckets t5_buckets(const T5Model& model, bool is_decoder);

// The bias that all layers of one side add to their scores, [heads, tokens, keys], of the field "relative_buckets".
Body t5_relative_bias(const T5Model& model, bool is_decoder, std::int64_t tokens);
// Where a layer has its bias from: the input "score_bias" [heads, tokens, keys], or the table that t5_relative_bias()
// reads, which all layers of one side share.
enum class ScoreBias { input, table };
// Layers read "x" [sequences, tokens, hidden]; the axes "tokens" and "keys" have one extent. A decoder's layer attends
// to "memory" [sequences, source, hidden] as well.
Body t5_encoder_layer(const T5Model& model, std::int64_t sequences, std::int64_t tokens,
                      ScoreBias bias = ScoreBias::input);
Body t5_decoder_layer(const T5Model& model, std::int64_t sequences, std::int64_t tokens, std::int64_t source,
                      ScoreBias bias = ScoreBias::input);

}  // namespace llmtrain::body
