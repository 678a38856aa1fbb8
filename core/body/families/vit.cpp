// SPDX-License-Identifier: Apache-2.0
#include "core/body/families/vit.h"

#include <utility>
#include <vector>

#include "core/body/parts/heads.h"
#include "core/body/parts/images.h"
#include "core/body/parts/linear.h"
#include "core/body/parts/token_body.h"
#include "core/body/parts/transformer_layer.h"

namespace llmtrain::body {
namespace {

Norm norm_of(const VitModel& model) { return {.kind = NormKind::layer, .epsilon = model.epsilon}; }

TensorId write_logits(TokenBody& body, const VitModel& model, std::int64_t classes) {
  const TensorId first = write_first_token(body.writer, body.x());
  const TensorId normed = write_norm(body.writer, "norm", norm_of(model), first);
  return write_classification_head(body.writer, {classes, 0}, normed);
}

}  // namespace

Body vit_embedding(const VitModel& model, std::int64_t samples) {
  BodyWriter writer;
  const AxisId sequences = writer.axis("sequences", samples), hidden = writer.axis("hidden", model.hidden);
  const TensorId pixels = write_pixels(writer, sequences, {model.channels, model.image, model.image});
  writer.output(write_patch_embedding(writer, {model.patch, model.dropout}, sequences, hidden, pixels));
  return writer.take();
}

Body vit_layer(const VitModel& model, std::int64_t samples) {
  TokenBody body(samples, model.tokens(), model.hidden);
  const TransformerLayer layer{
      .attention = {.heads = model.heads, .head_dim = model.hidden / model.heads, .dropout = model.attention_dropout},
      .feed_forward = {.width = model.width, .activation = model.activation},
      .residual = {.norm = norm_of(model), .dropout = model.dropout}};
  return body.finished(write_layer(body.writer, layer, body.x()));
}

Body vit_classifier(const VitModel& model, std::int64_t classes, std::int64_t samples) {
  TokenBody body(samples, model.tokens(), model.hidden);
  return body.finished(write_logits(body, model, classes));
}

Body vit_classifier_loss(const VitModel& model, std::int64_t classes, std::int64_t samples) {
  TokenBody body(samples, model.tokens(), model.hidden);
  const TensorId logits = write_logits(body, model, classes);
  std::vector<AxisId> rows = body.writer.axes_of(logits);
  rows.pop_back();
  return body.finished(body.writer.cross_entropy(logits, body.writer.field("label", std::move(rows))));
}

}  // namespace llmtrain::body
