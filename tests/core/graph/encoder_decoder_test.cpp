// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/operators/operators.h"
#include "core/graph/values.h"
#include "core/recipe/pipeline_order.h"

namespace llmtrain {
namespace {

// t5-small of Hugging Face's hub.
ModelRecipe t5_small() {
  ModelRecipe model;
  model.architecture = Architecture::t5;
  model.layers = model.decoder_layers = 6;
  model.hidden_size = 512;
  model.heads = model.kv_heads = 8;
  model.head_dim = 64;
  model.ffn_hidden_size = 2048;
  model.vocab_size = 32128;
  model.max_sequence_length = 512;
  model.activation = Activation::relu;
  model.norm = NormKind::rmsnorm;
  model.position = Position::relative;
  model.set_biases(false);
  model.init_std = 1;
  return model;
}

ModelRecipe bart_base() {
  ModelRecipe model;
  model.architecture = Architecture::bart;
  model.layers = model.decoder_layers = 6;
  model.hidden_size = 768;
  model.heads = model.kv_heads = 12;
  model.head_dim = 64;
  model.ffn_hidden_size = 3072;
  model.vocab_size = 50265;
  model.max_sequence_length = 1024;
  model.activation = Activation::gelu;
  return model;
}

std::vector<std::string> names_of(const Graph& graph, const std::vector<std::size_t>& values) {
  std::vector<std::string> names;
  for (const std::size_t value : values) names.push_back(graph.values[value].name);
  return names;
}

}  // namespace

TEST_CASE("published encoder-decoders have as many parameters as their files") {
  CHECK(Graph::build(t5_small()).parameter_count() == 60'506'624);
  ModelRecipe newer = t5_small();  // google/flan-t5-small
  newer.layers = newer.decoder_layers = 8;
  newer.heads = newer.kv_heads = 6;
  newer.ffn_hidden_size = 1024;
  newer.activation = Activation::geglu_tanh;
  newer.tie_embeddings = false;
  CHECK(Graph::build(newer).parameter_count() == 76'961'152);
  // Without the two rows before the first position, of which each side's table has none here.
  CHECK(Graph::build(bart_base()).parameter_count() == 139'420'416 - 4 * 768);
  for (const ModelRecipe& model : {t5_small(), newer, bart_base()})
    CHECK(block_count(model) == std::ssize(Graph::build(model).blocks));
}

TEST_CASE("the FLOPs of an encoder-decoder are of the lengths of both sequences") {
  const ModelRecipe model = bart_base();
  constexpr double hidden = 768, ffn = 3072, source = 96, target = 40;
  const double square = 2 * hidden * hidden, network = 2 * 2 * hidden * ffn;
  const double encoder = source * (4 * square + network) + 4 * source * source * hidden;
  const double within = target * 4 * square + 4 * target * target * hidden;
  const double across = target * 2 * square + source * 2 * square + 4 * target * source * hidden;
  const double decoder = within + across + target * network;
  const double head = target * 2 * hidden * 50265;
  CHECK(training_flops_per_sample(Graph::build(model), 96, 40) == Approx(3 * (6 * (encoder + decoder) + head)));
  CHECK(training_flops_per_sample(Graph::build(model), 96) == training_flops_per_sample(Graph::build(model), 96, 96));
}

TEST_CASE("what the encoder makes crosses all cuts of the decoder, and has the source's rows") {
  const Graph graph = Graph::build(t5_small());
  using Names = std::vector<std::string>;
  const auto across = [&](const char* block) {
    return names_of(graph, values_across(graph, graph.block_named(block)));
  };
  CHECK(across("encoder.layers.3") == Names{"encoder.layers.2"});
  CHECK(across("decoder.embedding") == Names{"encoder.norm"});
  CHECK(across("decoder.layers.0") == Names{"encoder.norm", "decoder.embedding"});
  CHECK(across("decoder.layers.5") == Names{"encoder.norm", "decoder.layers.4"});
  CHECK(across("head") == Names{"decoder.layers.5"});
  PassSetting setting;
  setting.tokens = {.batch = 3, .sequence_length = 20, .target_length = 7};
  const auto values = values_across(graph, graph.block_named("decoder.layers.5"));
  CHECK(values_bytes(graph, values, setting) == 4.0 * 3 * (20 + 7) * 512);
}

TEST_CASE("tables are read by all blocks that share them") {
  const Graph graph = Graph::build(t5_small());
  const auto readers = [&](const char* block, const char* name) {
    return graph.parameter(graph.block_named(block), name).readers.size();
  };
  CHECK(readers("encoder.embedding", "token.weight") == 3);
  CHECK(readers("encoder.layers.0", "relative_bias.weight") == 6);
  CHECK(readers("decoder.layers.0", "relative_bias.weight") == 6);
  // Two kinds of layers on each side: those that have the table, and those that borrow it.
  CHECK(graph.blocks[graph.block_named("decoder.layers.5")].alike == graph.block_named("decoder.layers.1"));
}

TEST_CASE("the weights of T5 begin as its authors have them") {
  ModelRecipe model = t5_small();
  model.init_std = 0.5;
  const Graph graph = Graph::build(model);
  const auto deviation = [&](const char* block, const char* name) {
    return graph.parameter(graph.block_named(block), name).standard_deviation;
  };
  CHECK(deviation("encoder.embedding", "token.weight") == 0.5);
  CHECK(deviation("encoder.layers.0", "attention.query.weight") == Approx(0.5 / std::sqrt(512.0 * 64)));
  CHECK(deviation("decoder.layers.2", "cross_attention.value.weight") == Approx(0.5 / std::sqrt(512.0)));
  CHECK(deviation("decoder.layers.2", "attention.output.weight") == Approx(0.5 / std::sqrt(8.0 * 64)));
  CHECK(deviation("encoder.layers.0", "ffn.down.weight") == Approx(0.5 / std::sqrt(2048.0)));
}

}  // namespace llmtrain
