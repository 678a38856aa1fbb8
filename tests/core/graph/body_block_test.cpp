// SPDX-License-Identifier: Apache-2.0
#include "core/graph/blocks/body_block.h"

#include <catch2/catch.hpp>

#include "core/base/error.h"
#include "core/body/body_writer.h"
#include "core/graph/block_fields.h"
#include "core/graph/operators/operators.h"

namespace llmtrain {
namespace {

constexpr std::int64_t batch_sequences = 3, batch_tokens = 8, encoder_width = 16, encoder_inner = 40, encoder_ids = 50;

ModelRecipe encoder(std::int64_t layers = 3) {
  ModelRecipe model;
  model.architecture = Architecture::bert;
  model.layers = layers;
  model.hidden_size = encoder_width;
  model.heads = model.kv_heads = 4;
  model.head_dim = encoder_width / model.heads;
  model.ffn_hidden_size = encoder_inner;
  model.vocab_size = encoder_ids;
  model.max_sequence_length = 32;
  model.activation = Activation::gelu;
  return model;
}

// A body that scales each feature of the rows, or of the rows that a field of this name has.
BodyDescription scaling(const std::string& field = "") {
  body::BodyWriter writer;
  const body::AxisId b = writer.axis("b", 1), t = writer.axis("t", 1), h = writer.axis("h", 4);
  const body::TensorId x = field.empty() ? writer.input("x", {b, t, h}) : writer.field(field, {b, t, h});
  const body::TensorId weight = writer.parameter("weight", {h});
  writer.output(writer.elementwise(body::ElementwiseKind::multiply, {x, weight}));
  return {.body = writer.take(), .axes = {b, t}, .parameters = {{.local_name = "weight", .shape = {4}}}};
}

std::string refusal(const BodyDescription& description) {
  try {
    const BodySettings settings(description);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::vector<BatchField> fields_in(const Graph& graph, std::size_t block) {
  std::vector<BatchField> fields;
  for (const BlockField& field : fields_of(graph.blocks[block])) fields.push_back(field.field);
  return fields;
}

}  // namespace

TEST_CASE("a graph of bodies has values, parameters and a loss as any other, and its layers are alike") {
  const Graph graph = Graph::build(encoder());
  REQUIRE(graph.blocks.size() == 5);
  CHECK(graph.blocks[2].alike == 1);
  CHECK(graph.blocks[3].alike == 1);
  CHECK(graph.blocks[4].alike == 4);
  CHECK(graph.units() == 3);
  CHECK(graph.blocks[1].inputs == graph.blocks[0].outputs);
  CHECK(graph.values.at(graph.blocks[3].outputs[0]).name == "layers.2");
  CHECK(graph.values.at(graph.blocks[3].outputs[0]).features == std::vector<std::int64_t>{encoder_width});
  CHECK(graph.blocks[4].outputs.empty());
  CHECK(graph.row_losses().size() == 1);
  CHECK(graph.blocks[4].losses == std::vector<std::size_t>{0});
  CHECK(graph.parameter(1, "attention.query.weight").shape == std::vector<std::int64_t>{encoder_width, encoder_width});
  CHECK(graph.parameter(1, "ffn.down.weight").shape == std::vector<std::int64_t>{encoder_width, encoder_inner});
  CHECK(graph.parameter(1, "ffn.down.weight").is_layer_matrix);
  // BERT's parameters: tables, norms, four projections, two layers of the network, transform and bias of the head.
  const std::int64_t layer = 4 * (encoder_width * encoder_width + encoder_width) + 2 * encoder_width * encoder_inner +
                             encoder_inner + encoder_width + 4 * encoder_width;
  const std::int64_t ends = (encoder_ids + 32 + 2) * encoder_width + 2 * encoder_width + encoder_width * encoder_width +
                            3 * encoder_width + encoder_ids;
  CHECK(graph.parameter_count() == 3 * layer + ends);
  CHECK(graph.find_parameter(4, "head.weight") == graph.find_parameter(0, "token.weight"));
}

TEST_CASE("bodies that compute the same are equal, whoever wrote them") {
  const Graph one = Graph::build(encoder(2)), other = Graph::build(encoder(3));
  CHECK(one.blocks[1].settings == other.blocks[3].settings);
  CHECK_FALSE(one.blocks[0].settings == other.blocks[1].settings);
  ModelRecipe dropping = encoder();
  dropping.dropout = 0.1;
  CHECK_FALSE(Graph::build(dropping).blocks[1].settings == one.blocks[1].settings);
}

TEST_CASE("a body's list has the FLOPs of the batch that a layout gives it") {
  const Graph graph = Graph::build(encoder());
  PassSetting setting;
  setting.tokens.batch = batch_sequences;
  setting.tokens.sequence_length = batch_tokens;
  const double rows = batch_sequences * batch_tokens,
               products = 2 * rows * (4 * encoder_width * encoder_width + 2 * encoder_width * encoder_inner);
  CHECK(forward_flops(block_operators(graph, 1, setting)) == products + 4 * rows * batch_tokens * encoder_width);
  CHECK(forward_flops(block_operators(graph, 4, setting)) ==
        2 * rows * (encoder_width * encoder_width + encoder_width * encoder_ids));
  CHECK(block_operators(graph, 4, setting).back().ends_micro_batch);
}

TEST_CASE("a body reads the fields that it names, and with a loss the rows that count") {
  const Graph graph = Graph::build(encoder());
  CHECK(fields_in(graph, 0) == std::vector<BatchField>{BatchField::token_ids});
  CHECK(fields_in(graph, 1).empty());
  CHECK(fields_in(graph, 4) == std::vector<BatchField>{BatchField::targets, BatchField::counted_rows});
  CHECK_FALSE(fields_of(graph.blocks[4])[1].is_needed);
}

TEST_CASE("a description that does not fit its body is refused") {
  CHECK(refusal(scaling()).empty());
  CHECK(refusal(scaling("token_ids")).empty());
  CHECK(refusal(scaling("waveform")) == "body of a block: samples have no field waveform");
  CHECK(refusal(scaling("positions")) == "body of a block: it reads positions, but no field of the samples");
  BodyDescription unnamed = scaling(), larger = scaling(), with_loss = scaling();
  unnamed.parameters.clear();
  CHECK(refusal(unnamed) == "body of a block: its parameters are not those that are described");
  larger.parameters[0].shape = {5};
  CHECK(refusal(larger) == "body of a block: weight has other elements in the body");
  with_loss.losses = {{"loss", 1}};
  CHECK(refusal(with_loss) == "body of a block: 0 of its outputs are losses, where it raises 1");
}

}  // namespace llmtrain
