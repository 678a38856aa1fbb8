// SPDX-License-Identifier: Apache-2.0
#include "core/body/families/bert.h"

#include "core/body/parts/embeddings.h"
#include "core/body/parts/heads.h"
#include "core/body/parts/token_body.h"
#include "core/body/parts/transformer_layer.h"

namespace llmtrain::body {
namespace {

Norm norm_of(const BertModel& model) { return {.kind = NormKind::layer, .epsilon = model.epsilon}; }

TransformerLayer layer_of(const BertModel& model) {
  return {
      .attention = {.heads = model.heads, .head_dim = model.hidden / model.heads, .dropout = model.attention_dropout},
      .feed_forward = {.width = model.width, .activation = model.activation},
      .residual = {.norms_before = false, .norm = norm_of(model), .dropout = model.dropout}};
}

}  // namespace

Body bert_embedding(const BertModel& model, std::int64_t sequences, std::int64_t tokens) {
  TokenBody body(sequences, tokens, model.hidden);
  const EmbeddingPart part{.vocabulary = model.vocabulary,
                           .positions = model.positions,
                           .token_types = model.token_types,
                           .norm = norm_of(model),
                           .dropout = model.dropout};
  return body.finished(write_embedding(body.writer, part, body.sequences, body.tokens, body.hidden));
}

Body bert_layer(const BertModel& model, std::int64_t sequences, std::int64_t tokens) {
  TokenBody body(sequences, tokens, model.hidden);
  return body.finished(write_layer(body.writer, layer_of(model), body.x()));
}

Body bert_masked_language_head(const BertModel& model, std::int64_t sequences, std::int64_t tokens) {
  TokenBody body(sequences, tokens, model.hidden);
  const MaskedLanguageHead head{model.vocabulary, model.activation, norm_of(model)};
  return body.finished(write_masked_language_head(body.writer, head, body.x()));
}

Body bert_classifier(const BertModel& model, std::int64_t classes, std::int64_t sequences, std::int64_t tokens) {
  TokenBody body(sequences, tokens, model.hidden);
  const TensorId pooled = write_pooler(body.writer, body.x());
  return body.finished(write_classification_head(body.writer, {classes, model.dropout}, pooled));
}

}  // namespace llmtrain::body
