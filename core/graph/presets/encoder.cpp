// SPDX-License-Identifier: Apache-2.0
#include "core/graph/presets/encoder.h"

#include <string>
#include <utility>
#include <vector>

#include "core/body/families/bert.h"
#include "core/body/parts/heads.h"
#include "core/body/parts/linear.h"
#include "core/body/parts/token_body.h"
#include "core/graph/blocks/graph_writer.h"
#include "core/graph/presets/described_body.h"

namespace llmtrain {
namespace {

using body::AxisId;
using body::Body;
using body::TensorId;
using body::TokenBody;

body::Norm norm_of(const ModelRecipe& model) { return {.epsilon = model.norm_eps}; }

body::ElementwiseKind activation_of(const ModelRecipe& model) {
  return model.activation == Activation::gelu ? body::ElementwiseKind::gelu : body::ElementwiseKind::gelu_tanh;
}

// With extents of the batch that a layout or a batch replaces.
TokenBody begun(const ModelRecipe& model) { return {1, model.max_sequence_length, model.hidden_size}; }

Body embedding_body(const ModelRecipe& model) {
  TokenBody of = begun(model);
  body::BodyWriter& writer = of.writer;
  const auto rows_of = [&](const std::string& field, const std::string& table, std::int64_t rows) {
    const TensorId weight = writer.parameter(table + ".weight", {writer.axis(table + ".rows", rows), of.hidden});
    const TensorId numbers = writer.field(field, {of.sequences, of.tokens});
    return writer.named(writer.gather(weight, numbers), table);
  };
  const TensorId token = rows_of("token_ids", "token", model.vocab_size);
  const TensorId position = rows_of(std::string(positions_field), "position", model.max_sequence_length);
  // Where two texts may be compared, samples say of which of them a token is.
  const auto first_type = [&] {
    const AxisId types = writer.axis("types", token_types(model.architecture)), first = writer.axis("first_type", 1);
    const TensorId table = writer.parameter("token_type.weight", {types, of.hidden});
    return writer.reduce(body::ReduceKind::sum, writer.slice(table, types, first), {of.hidden});
  };
  const bool has_types = model.classifier && token_types(model.architecture) > 1;
  const TensorId type =
      has_types ? rows_of("token_types", "token_type", token_types(model.architecture)) : first_type();
  const TensorId sum = writer.named(writer.elementwise(body::ElementwiseKind::add, {token, position, type}), "sum");
  return of.finished(
      write_dropout(writer, "embedding", model.dropout, write_norm(writer, "norm", norm_of(model), sum)));
}

Body layer_body(const ModelRecipe& model) {
  const body::BertModel bert{.hidden = model.hidden_size,
                             .heads = model.heads,
                             .width = model.ffn_hidden_size,
                             .activation = activation_of(model),
                             .epsilon = model.norm_eps,
                             .dropout = model.dropout,
                             .attention_dropout = model.dropout};
  return body::bert_layer(bert, 1, model.max_sequence_length);
}

Body head_body(const ModelRecipe& model) {
  TokenBody of = begun(model);
  const TensorId x = of.x(), targets = of.writer.field("targets", {of.sequences, of.tokens});
  const TensorId logits =
      write_masked_language_head(of.writer, {model.vocab_size, activation_of(model), norm_of(model)}, x);
  return of.finished(of.writer.cross_entropy(logits, targets));
}

// The first token of a sequence, through a layer and tanh: BERT's pooler, and RoBERTa's head, which drops before it.
TensorId write_pooled(TokenBody& of, const ModelRecipe& model) {
  const TensorId x = of.x();
  if (model.architecture == Architecture::bert) return body::write_pooler(of.writer, x);
  return body::write_pooler_of(of.writer,
                               write_dropout(of.writer, "pooler", model.dropout, write_first_token(of.writer, x)));
}

Body classifier_body(const ModelRecipe& model) {
  TokenBody of = begun(model);
  const ClassifierRecipe& classifier = *model.classifier;
  if (classifier.of == ClassifiedPart::span) {
    const TensorId x = of.x(), padding = of.writer.field(std::string(padding_field), {of.sequences, of.tokens});
    const TensorId logits = write_span_head(of.writer, x, padding);
    const std::vector<AxisId>& axes = of.writer.axes_of(logits);
    const TensorId span = of.writer.field("span", {axes[0], axes[1]});
    return of.finished(of.writer.cross_entropy(logits, span));
  }
  const bool is_of_tokens = classifier.of == ClassifiedPart::token;
  const TensorId x = is_of_tokens ? of.x() : write_pooled(of, model);
  const TensorId logits = write_classification_head(of.writer, {std::ssize(classifier.classes), model.dropout}, x);
  std::vector<AxisId> rows = of.writer.axes_of(logits);
  rows.pop_back();
  const TensorId targets = of.writer.field(is_of_tokens ? "targets" : "label", std::move(rows));
  return of.finished(of.writer.cross_entropy(logits, targets));
}

}  // namespace

void write_encoder(GraphWriter& writer) {
  const ModelRecipe& model = writer.model();
  writer.add_block("embedding", BodySettings(described(embedding_body(model), model)));
  const BodySettings layer(described(layer_body(model), model, true));
  for (std::int64_t index = 0; index < model.layers; ++index)
    writer.add_block("layers." + std::to_string(index), layer);
  BodyDescription head = described(model.classifier ? classifier_body(model) : head_body(model), model);
  head.losses = {{std::string(loss_names::head), 1}};
  head.tells_classes = model.classifier.has_value();
  if (model.tie_embeddings && !model.classifier) {
    std::erase_if(head.parameters, [](const Parameter& parameter) { return parameter.local_name == "head.weight"; });
    head.shared = {{"head.weight", "embedding", "token.weight"}};
  }
  writer.add_block("head", BodySettings(std::move(head)));
}

}  // namespace llmtrain
