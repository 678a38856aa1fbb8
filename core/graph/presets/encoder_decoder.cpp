// SPDX-License-Identifier: Apache-2.0
#include "core/graph/presets/encoder_decoder.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/body/families/bart.h"
#include "core/body/families/t5.h"
#include "core/body/parts/linear.h"
#include "core/body/parts/token_body.h"
#include "core/graph/blocks/graph_writer.h"
#include "core/graph/presets/described_body.h"

namespace llmtrain {
namespace {

using body::Body;
using body::ElementwiseKind;
using body::TensorId;
using body::TokenBody;

constexpr std::size_t source_rows = 0, target_rows = 1;

ElementwiseKind activation_of(Activation activation) {
  switch (activation) {
    case Activation::gelu:
    case Activation::geglu:
      return ElementwiseKind::gelu;
    case Activation::gelu_tanh:
    case Activation::geglu_tanh:
      return ElementwiseKind::gelu_tanh;
    case Activation::relu:
      return ElementwiseKind::relu;
    case Activation::swiglu:
      return ElementwiseKind::silu;
    case Activation::squared_relu:
    case Activation::clamped_swiglu:
      break;
  }
  throw Error(ExitCode::internal_error, "an encoder-decoder has no such activation");
}

// Padding makes attention one within documents, which has no dropout.
constexpr double attention_dropout = 0;

body::BartModel bart_of(const ModelRecipe& model) {
  return {.hidden = model.hidden_size,
          .heads = model.heads,
          .width = model.ffn_hidden_size,
          .activation = activation_of(model.activation),
          .epsilon = model.norm_eps,
          .dropout = model.dropout,
          .attention_dropout = attention_dropout,
          .activation_dropout = model.dropout};
}

body::T5Model t5_of(const ModelRecipe& model) {
  return {.hidden = model.hidden_size,
          .heads = model.heads,
          .head_dim = model.head_dim,
          .width = model.ffn_hidden_size,
          .activation = activation_of(model.activation),
          .is_gated = is_gated(model.activation),
          .epsilon = model.norm_eps,
          .dropout = model.dropout,
          .attention_dropout = attention_dropout};
}

bool is_t5(const ModelRecipe& model) { return model.architecture == Architecture::t5; }

body::Norm family_norm(const ModelRecipe& model) {
  return {.kind = is_t5(model) ? body::NormKind::root_mean_square : body::NormKind::layer, .epsilon = model.norm_eps};
}

// With extents of the batch that a layout or a batch replaces.
TokenBody begun_rows(const ModelRecipe& model) { return {1, model.max_sequence_length, model.hidden_size}; }

Body embedding_body(const ModelRecipe& model, const std::string& field) {
  TokenBody of = begun_rows(model);
  body::BodyWriter& writer = of.writer;
  const auto rows_of = [&](const std::string& numbers, const std::string& table, std::int64_t rows) {
    const TensorId weight = writer.parameter(table + ".weight", {writer.axis(table + ".rows", rows), of.hidden});
    return writer.named(writer.gather(weight, writer.field(numbers, {of.sequences, of.tokens})), table);
  };
  TensorId x = rows_of(field, "token", model.vocab_size);
  if (model.position == Position::learned) {
    const TensorId position = rows_of(std::string(positions_field), "position", model.max_sequence_length);
    x = writer.named(writer.elementwise(ElementwiseKind::add, {x, position}), "sum");
    x = write_norm(writer, "norm", family_norm(model), x);
  }
  return of.finished(write_dropout(writer, "embedding", model.dropout, x));
}

Body encoder_layer_body(const ModelRecipe& model) {
  if (is_t5(model)) return t5_encoder_layer(t5_of(model), 1, model.max_sequence_length, body::ScoreBias::table);
  return bart_encoder_layer(bart_of(model), 1, model.max_sequence_length);
}

Body decoder_layer_body(const ModelRecipe& model) {
  const std::int64_t length = model.max_sequence_length;
  if (is_t5(model)) return t5_decoder_layer(t5_of(model), 1, length, length, body::ScoreBias::table);
  return bart_decoder_layer(bart_of(model), 1, length, length);
}

TensorId write_last_norm(body::BodyWriter& writer, const ModelRecipe& model, TensorId x) {
  return write_dropout(writer, "norm", model.dropout, write_norm(writer, "norm", family_norm(model), x));
}

Body last_norm_body(const ModelRecipe& model) {
  TokenBody of = begun_rows(model);
  return of.finished(write_last_norm(of.writer, model, of.x()));
}

// T5's table of tokens is as large as its rows' features are: its head takes their root out again where it reads it.
Body target_head_body(const ModelRecipe& model) {
  TokenBody of = begun_rows(model);
  body::BodyWriter& writer = of.writer;
  TensorId x = of.x();
  const TensorId targets = writer.field("targets", {of.sequences, of.tokens});
  if (is_t5(model)) x = write_last_norm(writer, model, x);
  if (is_t5(model) && model.tie_embeddings)
    x = writer.named(writer.scale(x, 1 / std::sqrt(static_cast<double>(model.hidden_size))), "scaled");
  const TensorId logits =
      write_linear(writer, {"head", {of.hidden}, {writer.axis("vocabulary", model.vocab_size)}, false}, x);
  return of.finished(writer.cross_entropy(logits, targets));
}

// As T5's authors' code has it (mesh_tensorflow): by what a matrix reads, and of queries by their heads' width, too, in
// place of a scale of scores.
double t5_deviation(const ModelRecipe& model, const std::string& name) {
  const auto root = [](std::int64_t width) { return std::sqrt(static_cast<double>(width)); };
  if (name == "token.weight" || name == "head.weight") return 1;
  if (name.ends_with("attention.query.weight")) return 1 / (root(model.hidden_size) * root(model.head_dim));
  if (name.ends_with("attention.output.weight")) return 1 / root(model.heads * model.head_dim);
  if (name == "ffn.down.weight") return 1 / root(model.ffn_hidden_size);
  return 1 / root(model.hidden_size);
}

// Adds the blocks, whose parameters begin as the family's do.
class EncoderDecoder {
 public:
  explicit EncoderDecoder(GraphWriter& writer) : writer_(writer), model_(writer.model()) {}

  void write() {
    add("encoder.embedding", of_rows(embedding_body(model_, "source_ids"), source_rows));
    for (std::int64_t index = 0; index < model_.layers; ++index) add_layer("encoder.layers.", index, {});
    if (is_t5(model_)) add("encoder.norm", of_rows(last_norm_body(model_), source_rows));
    memory_ = last_;
    BodyDescription embedding = of_rows(embedding_body(model_, "token_ids"), target_rows);
    share(embedding, "token.weight", "encoder.embedding");
    add("decoder.embedding", std::move(embedding));
    for (std::int64_t index = 0; index < model_.decoder_layers; ++index) add_layer("decoder.layers.", index, memory_);
    BodyDescription head = of_rows(target_head_body(model_), target_rows);
    head.losses = {{std::string(loss_names::head), 1}};
    if (model_.tie_embeddings) share(head, "head.weight", "encoder.embedding", "token.weight");
    add("head", std::move(head));
  }

 private:
  BodyDescription of_rows(Body body, std::size_t rows, bool is_unit = false) const {
    BodyDescription block = described(std::move(body), model_, is_unit);
    block.axes.rows = rows;
    if (!is_t5(model_)) return block;
    for (Parameter& parameter : block.parameters)
      if (parameter.initialization == Initialization::normal)
        parameter.standard_deviation *= t5_deviation(model_, parameter.local_name);
    return block;
  }

  // Layer `index` of the side whose names begin so, which reads `memory` unless that is empty.
  void add_layer(const std::string& side, std::int64_t index, const std::string& memory) {
    const bool is_decoder = !memory.empty();
    const std::size_t rows = is_decoder ? target_rows : source_rows;
    BodyDescription block = of_rows(is_decoder ? decoder_layer_body(model_) : encoder_layer_body(model_), rows, true);
    if (is_decoder) block.reads = {last_, memory};
    if (is_decoder) block.axes.more.push_back({block.body.axis_named("source"), source_rows});
    if (is_t5(model_)) {
      block.axes.more.push_back({block.body.axis_named("keys"), rows});
      block.buckets = t5_buckets(t5_of(model_), is_decoder);
      if (index > 0) share(block, "relative_bias.weight", side + "0");
    }
    add(side + std::to_string(index), std::move(block));
  }

  static void share(BodyDescription& block, const std::string& name, const std::string& owner,
                    const std::string& name_there = {}) {
    std::erase_if(block.parameters, [&](const Parameter& parameter) { return parameter.local_name == name; });
    block.shared.push_back({name, owner, name_there.empty() ? name : name_there});
  }

  void add(const std::string& name, BodyDescription block) {
    writer_.add_block(name, BodySettings(std::move(block)));
    last_ = name;
  }

  GraphWriter& writer_;
  const ModelRecipe& model_;
  // The values that the block before and the encoder make, which are called as their blocks.
  std::string last_, memory_;
};

}  // namespace

void write_encoder_decoder(GraphWriter& writer) { EncoderDecoder(writer).write(); }

}  // namespace llmtrain
