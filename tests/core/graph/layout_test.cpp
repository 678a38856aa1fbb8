// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "core/graph/graph.h"
#include "tests/core/graph/models.h"

namespace llmtrain {
namespace {

using Role = ParameterRole;
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
  model.bias = model.qkv_bias = true;
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

// Whether the roles, which must all exist, are adjacent in the graph's parameters.
bool adjacent(const Graph& graph, std::size_t block, const std::vector<Role>& roles) {
  const Parameter* first = &graph.parameter(block, roles.front());
  for (std::size_t i = 0; i < roles.size(); ++i)
    if (&graph.parameter(block, roles[i]) != first + i) return false;
  return true;
}

TEST_CASE("parameters of one fused product are adjacent") {
  for (const ModelRecipe& model : test::all_small_models()) {
    const Graph graph = Graph::build(model);
    for (std::size_t block = 1; block + 1 < graph.blocks.size(); ++block) {
      REQUIRE(adjacent(graph, block, {Role::query_weight, Role::key_weight, Role::value_weight}));
      REQUIRE(graph.has_parameter(block, Role::query_bias) == model.qkv_bias);
      if (model.qkv_bias) REQUIRE(adjacent(graph, block, {Role::query_bias, Role::key_bias, Role::value_bias}));
      const bool gated = model.activation == Activation::swiglu;
      REQUIRE(graph.has_parameter(block, Role::ffn_gate_weight) == gated);
      REQUIRE(graph.has_parameter(block, Role::ffn_gate_bias) == (gated && model.bias));
      if (!gated) continue;
      REQUIRE(adjacent(graph, block, {Role::ffn_gate_weight, Role::ffn_up_weight}));
      if (model.bias) REQUIRE(adjacent(graph, block, {Role::ffn_gate_bias, Role::ffn_up_bias}));
    }
  }
}

TEST_CASE("shapes are [output, input] and follow the grouped heads") {
  const Graph graph = Graph::build(test::qwen3_600m());
  CHECK(graph.parameter(0, Role::token_embedding).shape == Shape{151936, 1024});
  CHECK(graph.parameter(1, Role::query_weight).shape == Shape{2048, 1024});
  CHECK(graph.parameter(1, Role::key_weight).shape == Shape{1024, 1024});
  CHECK(graph.parameter(1, Role::value_weight).shape == Shape{1024, 1024});
  CHECK(graph.parameter(1, Role::attention_output_weight).shape == Shape{1024, 2048});
  CHECK(graph.parameter(1, Role::query_norm_weight).shape == Shape{128});
  CHECK(graph.parameter(1, Role::key_norm_weight).shape == Shape{128});
  CHECK(graph.parameter(1, Role::ffn_gate_weight).shape == Shape{3072, 1024});
  CHECK(graph.parameter(1, Role::ffn_up_weight).shape == Shape{3072, 1024});
  CHECK(graph.parameter(1, Role::ffn_down_weight).shape == Shape{1024, 3072});
  CHECK(graph.parameter(1, Role::ffn_norm_weight).shape == Shape{1024});
  const Graph gpt2 = Graph::build(test::gpt2_model(2, 64, 4));
  CHECK(gpt2.parameter(0, Role::position_embedding).shape == Shape{1024, 64});
  CHECK(gpt2.parameter(1, Role::ffn_up_bias).shape == Shape{256});
  CHECK(gpt2.parameter(1, Role::ffn_down_bias).shape == Shape{64});
}

TEST_CASE("tensor parallelism splits by role") {
  ModelRecipe model = test::qwen3_600m();
  model.layers = 1;
  model.bias = model.qkv_bias = true;
  model.tie_embeddings = false;
  model.norm = NormKind::layernorm;
  model.position = Position::learned;
  const Graph graph = Graph::build(model);
  const auto axis = [&](std::size_t block, Role role) { return graph.parameter(block, role).shard_axis; };
  CHECK(axis(0, Role::token_embedding) == ShardAxis::output);
  CHECK(axis(0, Role::position_embedding) == ShardAxis::none);
  for (const Role role :
       {Role::query_weight, Role::key_weight, Role::value_weight, Role::query_bias, Role::key_bias, Role::value_bias,
        Role::ffn_gate_weight, Role::ffn_up_weight, Role::ffn_gate_bias, Role::ffn_up_bias})
    CHECK(axis(1, role) == ShardAxis::output);
  for (const Role role : {Role::attention_output_weight, Role::ffn_down_weight})
    CHECK(axis(1, role) == ShardAxis::input);
  for (const Role role :
       {Role::attention_norm_weight, Role::attention_norm_bias, Role::query_norm_weight, Role::key_norm_weight,
        Role::attention_output_bias, Role::ffn_norm_weight, Role::ffn_norm_bias, Role::ffn_down_bias})
    CHECK(axis(1, role) == ShardAxis::none);
  CHECK(axis(2, Role::final_norm_weight) == ShardAxis::none);
  CHECK(axis(2, Role::final_norm_bias) == ShardAxis::none);
  CHECK(axis(2, Role::head_weight) == ShardAxis::output);
}

TEST_CASE("initial weights are GPT-2's") {
  ModelRecipe model = test::gpt2_model(8, 64, 4);
  model.tie_embeddings = false;
  model.qk_norm = true;
  const Graph graph = Graph::build(model);
  const auto deviation = [&](std::size_t block, Role role) {
    const Parameter& parameter = graph.parameter(block, role);
    REQUIRE(parameter.initialization == Initialization::normal);
    return parameter.standard_deviation;
  };
  for (const Role role : {Role::token_embedding, Role::position_embedding}) CHECK(deviation(0, role) == 0.02);
  for (const Role role : {Role::query_weight, Role::key_weight, Role::value_weight, Role::ffn_up_weight})
    CHECK(deviation(3, role) == 0.02);
  CHECK(deviation(3, Role::attention_output_weight) == Approx(0.005));  // 0.02 / √16
  CHECK(deviation(3, Role::ffn_down_weight) == Approx(0.005));
  CHECK(deviation(9, Role::head_weight) == 0.02);
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.name.ends_with(".bias")) CHECK(parameter.initialization == Initialization::zeros);
    if (parameter.name.ends_with("norm.weight")) CHECK(parameter.initialization == Initialization::ones);
  }
}

TEST_CASE("weight decay excludes biases, norms and learned positions") {
  for (const ModelRecipe& model : test::all_small_models()) {
    for (const Parameter& parameter : Graph::build(model).parameters) {
      const bool is_matrix = parameter.shape.size() == 2 && parameter.role != Role::position_embedding;
      REQUIRE(parameter.decays == is_matrix);
    }
  }
}

}  // namespace
}  // namespace llmtrain
