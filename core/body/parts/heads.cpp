// SPDX-License-Identifier: Apache-2.0
#include "core/body/parts/heads.h"

#include "core/body/parts/linear.h"

namespace llmtrain::body {
namespace {

// A linear layer to as many features, under another label.
TensorId write_square(BodyWriter& writer, const std::string& name, TensorId x) {
  const AxisId hidden = writer.axes_of(x).back();
  const AxisId features = writer.axis(name + ".features", writer.extent_of(hidden));
  return write_linear(writer, {name, {hidden}, {features}}, x);
}

}  // namespace

TensorId write_masked_language_head(BodyWriter& writer, const MaskedLanguageHead& head, TensorId x) {
  const TensorId active = writer.elementwise(head.activation, {write_square(writer, "transform", x)});
  const TensorId normed = write_norm(writer, "norm", head.norm, writer.named(active, "transform.active"));
  const AxisId features = writer.axes_of(normed).back();
  return write_linear(writer, {"head", {features}, {writer.axis("vocabulary", head.vocabulary)}}, normed);
}

TensorId write_first_token(BodyWriter& writer, TensorId x) {
  return writer.named(writer.slice(x, writer.axes_of(x).at(1), writer.axis("first", 1)), "first_token");
}

TensorId write_pooler_of(BodyWriter& writer, TensorId rows) {
  const TensorId pooled = write_square(writer, "pooler", rows);
  return writer.named(writer.elementwise(ElementwiseKind::tanh, {pooled}), "pooled");
}

TensorId write_pooler(BodyWriter& writer, TensorId x) { return write_pooler_of(writer, write_first_token(writer, x)); }

TensorId write_classification_head(BodyWriter& writer, const ClassificationHead& head, TensorId x) {
  const TensorId read = write_dropout(writer, "classifier", head.dropout, x);
  const AxisId hidden = writer.axes_of(x).back();
  return write_linear(writer, {"classifier", {hidden}, {writer.axis("classes", head.classes)}}, read);
}

TensorId write_span_head(BodyWriter& writer, TensorId x, TensorId padding) {
  const AxisId sequences = writer.axes_of(x).at(0), tokens = writer.axes_of(x).at(1), hidden = writer.axes_of(x).back();
  const AxisId edges = writer.axis("edges", 2);
  const TensorId both = write_linear(writer, {"classifier", {hidden}, {edges}}, x);
  const TensorId within = writer.elementwise(ElementwiseKind::add, {both, padding});
  return writer.permute(writer.named(within, "edges_of_tokens"), {sequences, edges, tokens});
}

}  // namespace llmtrain::body
