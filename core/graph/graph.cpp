// SPDX-License-Identifier: Apache-2.0
#include "core/graph/graph.h"

#include <cmath>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "core/base/error.h"

namespace llmtrain {

namespace {

using Role = ParameterRole;

// Appends blocks and their parameters in the order of the data.
class Builder {
 public:
  explicit Builder(const ModelRecipe& model) { graph_.model = model; }

  void add_embedding();
  void add_layer(std::int64_t layer);
  void add_head();
  Graph take() { return std::move(graph_); }

 private:
  void begin(BlockKind kind, std::int64_t layer, std::string prefix);
  void add(Parameter parameter);
  void add_embedding_table(std::string name, Role role, std::int64_t rows);
  void add_weight(const std::string& name, Role role, std::int64_t output, std::int64_t input, ShardAxis axis);
  void add_bias(const std::string& name, Role role, std::int64_t size, ShardAxis axis);
  void add_norm(const std::string& name, Role weight, Role bias);
  void add_head_norm(const std::string& name, Role role);
  void add_attention();
  void add_feed_forward();

  const ModelRecipe& model() const { return graph_.model; }
  // Residual projections start smaller by the root of their number, so that the residual stream's variance does not
  // grow with depth (GPT-2, section 2.3).
  double residual_std() const { return model().init_std / std::sqrt(2.0 * static_cast<double>(model().layers)); }

  Graph graph_;
  std::string prefix_;
};

void Builder::begin(BlockKind kind, std::int64_t layer, std::string prefix) {
  graph_.blocks.push_back({.kind = kind, .layer = layer, .parameters = {}});
  prefix_ = std::move(prefix);
}

void Builder::add(Parameter parameter) {
  graph_.blocks.back().parameters.push_back(graph_.parameters.size());
  graph_.parameters.push_back(std::move(parameter));
}

void Builder::add_embedding_table(std::string name, Role role, std::int64_t rows) {
  const bool is_token = role == Role::token_embedding;
  add({.name = std::move(name),
       .role = role,
       .shape = {rows, model().hidden_size},
       .shard_axis = is_token ? ShardAxis::output : ShardAxis::none,
       .initialization = Initialization::normal,
       .standard_deviation = model().init_std,
       .decays = is_token});
}

void Builder::add_weight(const std::string& name, Role role, std::int64_t output, std::int64_t input, ShardAxis axis) {
  const bool is_residual = role == Role::attention_output_weight || role == Role::ffn_down_weight;
  add({.name = prefix_ + name + ".weight",
       .role = role,
       .shape = {output, input},
       .shard_axis = axis,
       .initialization = Initialization::normal,
       .standard_deviation = is_residual ? residual_std() : model().init_std,
       .decays = true});
}

void Builder::add_bias(const std::string& name, Role role, std::int64_t size, ShardAxis axis) {
  add({.name = prefix_ + name + ".bias",
       .role = role,
       .shape = {size},
       .shard_axis = axis,
       .initialization = Initialization::zeros,
       .standard_deviation = 0,
       .decays = false});
}

void Builder::add_norm(const std::string& name, Role weight, Role bias) {
  add({.name = prefix_ + name + ".weight",
       .role = weight,
       .shape = {model().hidden_size},
       .shard_axis = ShardAxis::none,
       .initialization = Initialization::ones,
       .standard_deviation = 0,
       .decays = false});
  if (model().bias && model().norm == NormKind::layernorm) add_bias(name, bias, model().hidden_size, ShardAxis::none);
}

void Builder::add_head_norm(const std::string& name, Role role) {
  add({.name = prefix_ + name + ".weight",
       .role = role,
       .shape = {model().head_dim},
       .shard_axis = ShardAxis::none,
       .initialization = Initialization::ones,
       .standard_deviation = 0,
       .decays = false});
}

void Builder::add_embedding() {
  begin(BlockKind::embedding, -1, "");
  add_embedding_table("embedding.token.weight", Role::token_embedding, model().vocab_size);
  if (model().position == Position::learned)
    add_embedding_table("embedding.position.weight", Role::position_embedding, model().max_sequence_length);
}

void Builder::add_attention() {
  const std::int64_t hidden = model().hidden_size;
  const std::int64_t query = model().heads * model().head_dim;
  const std::int64_t key = model().kv_heads * model().head_dim;
  add_weight("attention.query", Role::query_weight, query, hidden, ShardAxis::output);
  add_weight("attention.key", Role::key_weight, key, hidden, ShardAxis::output);
  add_weight("attention.value", Role::value_weight, key, hidden, ShardAxis::output);
  if (model().qkv_bias) {
    add_bias("attention.query", Role::query_bias, query, ShardAxis::output);
    add_bias("attention.key", Role::key_bias, key, ShardAxis::output);
    add_bias("attention.value", Role::value_bias, key, ShardAxis::output);
  }
  if (model().qk_norm) {
    add_head_norm("attention.query_norm", Role::query_norm_weight);
    add_head_norm("attention.key_norm", Role::key_norm_weight);
  }
  add_weight("attention.output", Role::attention_output_weight, hidden, query, ShardAxis::input);
  if (model().bias) add_bias("attention.output", Role::attention_output_bias, hidden, ShardAxis::none);
}

void Builder::add_feed_forward() {
  const std::int64_t hidden = model().hidden_size;
  const std::int64_t inner = model().ffn_hidden_size;
  const bool gated = model().activation == Activation::swiglu;
  if (gated) add_weight("ffn.gate", Role::ffn_gate_weight, inner, hidden, ShardAxis::output);
  add_weight("ffn.up", Role::ffn_up_weight, inner, hidden, ShardAxis::output);
  if (gated && model().bias) add_bias("ffn.gate", Role::ffn_gate_bias, inner, ShardAxis::output);
  if (model().bias) add_bias("ffn.up", Role::ffn_up_bias, inner, ShardAxis::output);
  add_weight("ffn.down", Role::ffn_down_weight, hidden, inner, ShardAxis::input);
  if (model().bias) add_bias("ffn.down", Role::ffn_down_bias, hidden, ShardAxis::none);
}

void Builder::add_layer(std::int64_t layer) {
  begin(BlockKind::layer, layer, "layers." + std::to_string(layer) + ".");
  add_norm("attention_norm", Role::attention_norm_weight, Role::attention_norm_bias);
  add_attention();
  add_norm("ffn_norm", Role::ffn_norm_weight, Role::ffn_norm_bias);
  add_feed_forward();
}

void Builder::add_head() {
  begin(BlockKind::head, -1, "");
  add_norm("final_norm", Role::final_norm_weight, Role::final_norm_bias);
  if (!model().tie_embeddings)
    add_weight("head", Role::head_weight, model().vocab_size, model().hidden_size, ShardAxis::output);
}

// Index of the block's parameter of that role, or the number of parameters.
std::size_t find_parameter(const Graph& graph, std::size_t block, ParameterRole role) {
  for (const std::size_t index : graph.blocks.at(block).parameters)
    if (graph.parameters[index].role == role) return index;
  return graph.parameters.size();
}

bool grows_with_vocabulary_or_positions(ParameterRole role) {
  return role == Role::token_embedding || role == Role::position_embedding || role == Role::head_weight;
}

}  // namespace

std::int64_t Parameter::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

Graph Graph::build(const ModelRecipe& model) {
  if (model.moe) {
    throw Error(ExitCode::bad_recipe,
                "/model/moe: mixture of experts is set; this version builds dense layers only; remove the key");
  }
  Builder builder(model);
  builder.add_embedding();
  for (std::int64_t layer = 0; layer < model.layers; ++layer) builder.add_layer(layer);
  builder.add_head();
  return builder.take();
}

std::int64_t Graph::parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters) count += parameter.elements();
  return count;
}

std::int64_t Graph::embedding_parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters)
    if (grows_with_vocabulary_or_positions(parameter.role)) count += parameter.elements();
  return count;
}

std::int64_t Graph::non_embedding_parameter_count() const { return parameter_count() - embedding_parameter_count(); }

const Parameter& Graph::parameter(std::size_t block, ParameterRole role) const {
  const std::size_t index = find_parameter(*this, block, role);
  if (index == parameters.size()) throw std::out_of_range("a block of the graph has no parameter of this role");
  return parameters[index];
}

bool Graph::has_parameter(std::size_t block, ParameterRole role) const {
  return find_parameter(*this, block, role) != parameters.size();
}

const Parameter& Graph::logits_weight() const {
  return model.tie_embeddings ? parameter(0, Role::token_embedding) : parameter(blocks.size() - 1, Role::head_weight);
}

}  // namespace llmtrain
