// SPDX-License-Identifier: Apache-2.0
#include "core/body/families/t5.h"

#include "core/body/parts/token_body.h"
#include "core/body/parts/transformer_layer.h"

namespace llmtrain::body {
namespace {

TransformerLayer layer_of(const T5Model& model, bool is_decoder) {
  return {
      .attention = {.heads = model.heads,
                    .head_dim = model.head_dim,
                    .has_biases = false,
                    .is_causal = is_decoder,
                    .scale = 1,
                    .dropout = model.attention_dropout},
      .feed_forward = {.width = model.width,
                       .activation = model.activation,
                       .is_gated = model.is_gated,
                       .has_biases = false,
                       .dropout = model.dropout},
      .residual = {.norm = {.kind = NormKind::root_mean_square, .epsilon = model.epsilon}, .dropout = model.dropout}};
}

// What both sides read.
struct Inputs {
  TensorId x = 0;
  LayerReads reads{};
};
Inputs write_inputs(TokenBody& body, const T5Model& model, bool is_decoder, ScoreBias bias) {
  Inputs inputs{.x = body.x()};
  BodyWriter& writer = body.writer;
  inputs.reads.heads = writer.axis("heads", model.heads);
  const AxisId keys = writer.axis("keys", writer.extent_of(body.tokens));
  switch (bias) {
    case ScoreBias::input:
      inputs.reads.score_bias = writer.input("score_bias", {*inputs.reads.heads, body.tokens, keys});
      break;
    case ScoreBias::table:
      inputs.reads.score_bias =
          write_relative_bias(writer, t5_buckets(model, is_decoder), *inputs.reads.heads, body.tokens, keys);
      break;
  }
  return inputs;
}

}  // namespace

RelativeBuckets t5_buckets(const T5Model& model, bool is_decoder) {
  return {model.buckets, model.most_distance, !is_decoder};
}

Body t5_relative_bias(const T5Model& model, bool is_decoder, std::int64_t tokens) {
  BodyWriter writer;
  const AxisId heads = writer.axis("heads", model.heads);
  const AxisId queries = writer.axis("tokens", tokens), keys = writer.axis("keys", tokens);
  writer.output(write_relative_bias(writer, t5_buckets(model, is_decoder), heads, queries, keys));
  return writer.take();
}

Body t5_encoder_layer(const T5Model& model, std::int64_t sequences, std::int64_t tokens, ScoreBias bias) {
  TokenBody body(sequences, tokens, model.hidden);
  const Inputs inputs = write_inputs(body, model, false, bias);
  return body.finished(write_layer(body.writer, layer_of(model, false), inputs.x, inputs.reads));
}

Body t5_decoder_layer(const T5Model& model, std::int64_t sequences, std::int64_t tokens, std::int64_t source,
                      ScoreBias bias) {
  TokenBody body(sequences, tokens, model.hidden);
  Inputs inputs = write_inputs(body, model, true, bias);
  inputs.reads.memory = body.memory(source);
  return body.finished(write_layer(body.writer, layer_of(model, true), inputs.x, inputs.reads));
}

}  // namespace llmtrain::body
