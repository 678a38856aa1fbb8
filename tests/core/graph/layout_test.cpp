// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

using Shape = std::vector<std::int64_t>;

std::vector<std::string> names(const Graph& graph) {
  std::vector<std::string> result;
  for (const Parameter& parameter : graph.parameters) result.push_back(parameter.name);
  return result;
}

TEST_CASE("names and order of a GPT-2") {
  CHECK(names(Graph::build(test::gpt2_model(1, 64, 4))) == std::vector<std::string>{"embedding.token.weight",
                                                                                    "embedding.position.weight",
                                                                                    "layers.0.attention_norm.weight",
                                                                                    "layers.0.attention_norm.bias",
                                                                                    "layers.0.attention.query.weight",
                                                                                    "layers.0.attention.key.weight",
                                                                                    "layers.0.attention.value.weight",
                                                                                    "layers.0.attention.query.bias",
                                                                                    "layers.0.attention.key.bias",
                                                                                    "layers.0.attention.value.bias",
                                                                                    "layers.0.attention.output.weight",
                                                                                    "layers.0.attention.output.bias",
                                                                                    "layers.0.ffn_norm.weight",
                                                                                    "layers.0.ffn_norm.bias",
                                                                                    "layers.0.ffn.up.weight",
                                                                                    "layers.0.ffn.up.bias",
                                                                                    "layers.0.ffn.down.weight",
                                                                                    "layers.0.ffn.down.bias",
                                                                                    "final_norm.weight",
                                                                                    "final_norm.bias"});
}

TEST_CASE("names and order of a gated model with every optional part of a Llama") {
  ModelRecipe model = test::qwen3_600m();
  model.layers = 1;
  model.set_biases(true);
  model.tie_embeddings = false;
  CHECK(names(Graph::build(model)) == std::vector<std::string>{"embedding.token.weight",
                                                               "layers.0.attention_norm.weight",
                                                               "layers.0.attention.query.weight",
                                                               "layers.0.attention.key.weight",
                                                               "layers.0.attention.value.weight",
                                                               "layers.0.attention.query.bias",
                                                               "layers.0.attention.key.bias",
                                                               "layers.0.attention.value.bias",
                                                               "layers.0.attention.query_norm.weight",
                                                               "layers.0.attention.key_norm.weight",
                                                               "layers.0.attention.output.weight",
                                                               "layers.0.attention.output.bias",
                                                               "layers.0.ffn_norm.weight",
                                                               "layers.0.ffn.gate.weight",
                                                               "layers.0.ffn.up.weight",
                                                               "layers.0.ffn.gate.bias",
                                                               "layers.0.ffn.up.bias",
                                                               "layers.0.ffn.down.weight",
                                                               "layers.0.ffn.down.bias",
                                                               "final_norm.weight",
                                                               "head.weight"});
}

// Whether these parameters, which must all exist, are adjacent and one product.
bool adjacent(const Graph& graph, std::size_t block, const std::vector<std::string>& names) {
  const Parameter* first = &graph.parameter(block, names.front());
  for (std::size_t i = 0; i < names.size(); ++i)
    if (&graph.parameter(block, names[i]) != first + i) return false;
  return graph.last_of_product(graph.index_of(*first)) == graph.index_of(*first) + names.size() - 1;
}

TEST_CASE("parameters of one fused product are adjacent") {
  for (const ModelRecipe& model : test::all_small_models()) {
    const Graph graph = Graph::build(model);
    for (std::size_t block = 1; block + 1 < graph.blocks.size(); ++block) {
      REQUIRE(adjacent(graph, block, {"attention.query.weight", "attention.key.weight", "attention.value.weight"}));
      REQUIRE(graph.has_parameter(block, "attention.query.bias") == model.qkv_bias);
      if (model.qkv_bias)
        REQUIRE(adjacent(graph, block, {"attention.query.bias", "attention.key.bias", "attention.value.bias"}));
      const bool gated = is_gated(model.activation);
      REQUIRE(graph.has_parameter(block, "ffn.gate.weight") == gated);
      REQUIRE(graph.has_parameter(block, "ffn.gate.bias") == (gated && model.bias));
      if (!gated) continue;
      REQUIRE(adjacent(graph, block, {"ffn.gate.weight", "ffn.up.weight"}));
      if (model.bias) REQUIRE(adjacent(graph, block, {"ffn.gate.bias", "ffn.up.bias"}));
    }
  }
}

TEST_CASE("shapes are [output, input] and follow the grouped heads") {
  const Graph graph = Graph::build(test::qwen3_600m());
  CHECK(graph.parameter(0, "token.weight").shape == Shape{151936, 1024});
  CHECK(graph.parameter(1, "attention.query.weight").shape == Shape{2048, 1024});
  CHECK(graph.parameter(1, "attention.key.weight").shape == Shape{1024, 1024});
  CHECK(graph.parameter(1, "attention.value.weight").shape == Shape{1024, 1024});
  CHECK(graph.parameter(1, "attention.output.weight").shape == Shape{1024, 2048});
  CHECK(graph.parameter(1, "attention.query_norm.weight").shape == Shape{128});
  CHECK(graph.parameter(1, "attention.key_norm.weight").shape == Shape{128});
  CHECK(graph.parameter(1, "ffn.gate.weight").shape == Shape{3072, 1024});
  CHECK(graph.parameter(1, "ffn.up.weight").shape == Shape{3072, 1024});
  CHECK(graph.parameter(1, "ffn.down.weight").shape == Shape{1024, 3072});
  CHECK(graph.parameter(1, "ffn_norm.weight").shape == Shape{1024});
  const Graph gpt2 = Graph::build(test::gpt2_model(2, 64, 4));
  CHECK(gpt2.parameter(0, "position.weight").shape == Shape{1024, 64});
  CHECK(gpt2.parameter(1, "ffn.up.bias").shape == Shape{256});
  CHECK(gpt2.parameter(1, "ffn.down.bias").shape == Shape{64});
}

TEST_CASE("each parameter says how tensor ranks split it, and into what") {
  ModelRecipe model = test::qwen3_600m();
  model.layers = 1;
  model.set_biases(true);
  model.tie_embeddings = false;
  model.norm = NormKind::layernorm;
  model.position = Position::learned;
  const Graph graph = Graph::build(model);
  const auto check = [&](const Split& split, std::size_t block, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      INFO(name);
      CHECK(graph.parameter(block, name).split == split);
    }
  };
  using Kind = Split::Kind;
  check({Kind::padded, 0, 151936}, 0, {"token.weight"});
  check({Kind::padded, 0, 151936}, 2, {"head.weight"});
  check({Kind::even, 0, 16}, 1, {"attention.query.weight", "attention.query.bias"});
  check({Kind::repeated, 0, 8}, 1,
        {"attention.key.weight", "attention.value.weight", "attention.key.bias", "attention.value.bias"});
  check({Kind::even, 0, 3072}, 1, {"ffn.gate.weight", "ffn.up.weight", "ffn.gate.bias", "ffn.up.bias"});
  check({Kind::even, 1, 16}, 1, {"attention.output.weight"});
  check({Kind::even, 1, 3072}, 1, {"ffn.down.weight"});
  check({}, 0, {"position.weight"});
  check({}, 1,
        {"attention_norm.weight", "attention_norm.bias", "attention.query_norm.weight", "attention.key_norm.weight",
         "attention.output.bias", "ffn_norm.weight", "ffn_norm.bias", "ffn.down.bias"});
  check({}, 2, {"final_norm.weight", "final_norm.bias"});
}

TEST_CASE("initial weights are GPT-2's") {
  ModelRecipe model = test::gpt2_model(8, 64, 4);
  model.tie_embeddings = false;
  model.qk_norm = true;
  const Graph graph = Graph::build(model);
  const auto deviation = [&](std::size_t block, const char* name) {
    const Parameter& parameter = graph.parameter(block, name);
    REQUIRE(parameter.initialization == Initialization::normal);
    return parameter.standard_deviation;
  };
  for (const char* name : {"token.weight", "position.weight"}) CHECK(deviation(0, name) == 0.02);
  for (const char* name : {"attention.query.weight", "attention.key.weight", "attention.value.weight", "ffn.up.weight"})
    CHECK(deviation(3, name) == 0.02);
  CHECK(deviation(3, "attention.output.weight") == Approx(0.005));  // 0.02 / √16
  CHECK(deviation(3, "ffn.down.weight") == Approx(0.005));
  CHECK(deviation(9, "head.weight") == 0.02);
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.name.ends_with(".bias")) CHECK(parameter.initialization == Initialization::zeros);
    if (parameter.name.ends_with("norm.weight")) CHECK(parameter.initialization == Initialization::ones);
  }
}

TEST_CASE("weight decay excludes biases, norms and learned positions") {
  for (const ModelRecipe& model : test::all_small_models()) {
    for (const Parameter& parameter : Graph::build(model).parameters) {
      const bool is_matrix = parameter.shape.size() == 2 && parameter.local_name != "position.weight";
      REQUIRE(parameter.decays == is_matrix);
    }
  }
}

}  // namespace
}  // namespace llmtrain
