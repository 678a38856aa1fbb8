// SPDX-License-Identifier: Apache-2.0
#include "core/body/families/bart.h"

#include <cmath>

#include "core/body/parts/embeddings.h"
#include "core/body/parts/token_body.h"
#include "core/body/parts/transformer_layer.h"

namespace llmtrain::body {
namespace {

constexpr std::int64_t first_position = 2;

Norm norm_of(const BartModel& model) { return {.kind = NormKind::layer, .epsilon = model.epsilon}; }

TransformerLayer layer_of(const BartModel& model, bool is_decoder) {
  return {.attention = {.heads = model.heads,
                        .head_dim = model.hidden / model.heads,
                        .is_causal = is_decoder,
                        .dropout = model.attention_dropout},
          .feed_forward = {.width = model.width, .activation = model.activation, .dropout = model.activation_dropout},
          .residual = {.norms_before = false, .norm = norm_of(model), .dropout = model.dropout}};
}

}  // namespace

Body bart_embedding(const BartModel& model, std::int64_t sequences, std::int64_t tokens) {
  TokenBody body(sequences, tokens, model.hidden);
  const EmbeddingPart part{.vocabulary = model.vocabulary,
                           .positions = model.positions + first_position,
                           .first_position = first_position,
                           .scale = model.scales_embedding ? std::sqrt(static_cast<double>(model.hidden)) : 1,
                           .norm = norm_of(model),
                           .dropout = model.dropout};
  return body.finished(write_embedding(body.writer, part, body.sequences, body.tokens, body.hidden));
}

Body bart_encoder_layer(const BartModel& model, std::int64_t sequences, std::int64_t tokens) {
  TokenBody body(sequences, tokens, model.hidden);
  return body.finished(write_layer(body.writer, layer_of(model, false), body.x()));
}

Body bart_decoder_layer(const BartModel& model, std::int64_t sequences, std::int64_t tokens, std::int64_t source) {
  TokenBody body(sequences, tokens, model.hidden);
  const TensorId x = body.x();
  return body.finished(write_layer(body.writer, layer_of(model, true), x, {.memory = body.memory(source)}));
}

}  // namespace llmtrain::body
