// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/adapters.h"
#include "core/graph/graph.h"
#include "core/graph/parameter_marks.h"
#include "core/graph/replayed_routing.h"

namespace llmtrain {

namespace {

using Role = ParameterRole;

// The roles of a feed-forward network, dense or of the experts.
struct FeedForwardRoles {
  ParameterRole gate_weight, gate_bias, up_weight, up_bias, down_weight, down_bias;
};

constexpr FeedForwardRoles dense_roles = {Role::ffn_gate_weight, Role::ffn_gate_bias,   Role::ffn_up_weight,
                                          Role::ffn_up_bias,     Role::ffn_down_weight, Role::ffn_down_bias};
constexpr FeedForwardRoles routed_roles = {Role::expert_gate_weight, Role::expert_gate_bias,   Role::expert_up_weight,
                                           Role::expert_up_bias,     Role::expert_down_weight, Role::expert_down_bias};

// The matrices whose output is added to the residual stream.
bool ends_residual_branch(Role role) {
  return role == Role::attention_output_weight || role == Role::ffn_down_weight || role == Role::expert_down_weight;
}

// Parameter::is_layer_matrix of the weights made by add_weight(). Routers and gates are small, and what they choose
// is sensitive; the head is in no layer.
bool is_layer_matrix(Role role) {
  return role != Role::router_weight && role != Role::router_projection_weight && role != Role::shared_gate_weight &&
         role != Role::head_weight;
}

// Positions in the model do not matter: blocks of equal shapes cost the same.
bool are_alike(const Graph& graph, std::size_t a, std::size_t b) {
  const auto is_same = [&](std::size_t left, std::size_t right) {
    return graph.parameters[left].role == graph.parameters[right].role &&
           graph.parameters[left].shape == graph.parameters[right].shape &&
           graph.parameters[left].is_high_precision == graph.parameters[right].is_high_precision &&
           graph.parameters[left].is_frozen == graph.parameters[right].is_frozen &&
           graph.parameters[left].adapts == graph.parameters[right].adapts;
  };
  return graph.blocks[a].kind == graph.blocks[b].kind &&
         std::ranges::equal(graph.blocks[a].parameters, graph.blocks[b].parameters, is_same);
}

std::vector<std::int64_t> with_experts(std::int64_t experts, std::vector<std::int64_t> shape) {
  if (experts > 0) shape.insert(shape.begin(), experts);
  return shape;
}

// Appends blocks and their parameters to a Graph in the order of the data: embedding, layers, head.
class GraphBuilder {
 public:
  explicit GraphBuilder(const ModelRecipe& model) : adapters_(model.lora) { graph_.model = model; }

  void add_embedding() {
    begin(BlockKind::embedding, -1, "");
    add_embedding_table("embedding.token.weight", Role::token_embedding, model().vocab_size);
    if (model().position == Position::learned)
      add_embedding_table("embedding.position.weight", Role::position_embedding, model().max_sequence_length);
  }

  void add_layer(std::int64_t layer) {
    begin(BlockKind::layer, layer, "layers." + std::to_string(layer) + ".");
    add_norm("attention_norm", Role::attention_norm_weight, Role::attention_norm_bias);
    add_attention();
    add_norm("ffn_norm", Role::ffn_norm_weight, Role::ffn_norm_bias);
    if (has_experts(model(), layer)) {
      add_experts();
    } else {
      add_feed_forward("ffn", dense_roles, model().ffn_hidden_size, 0);
    }
    add_adapters();
  }

  void add_head() {
    begin(BlockKind::head, -1, "");
    add_norm("final_norm", Role::final_norm_weight, Role::final_norm_bias);
    if (!model().tie_embeddings)
      add_weight({"head", Role::head_weight, model().vocab_size, model().hidden_size, ShardAxis::output});
  }

  Graph take(const HighPrecisionRecipe& high_precision, const std::vector<std::string>& frozen) {
    keep_precision(graph_, high_precision);
    adapters_.require_used();
    freeze(graph_, frozen);
    for (std::size_t block = 0; block < graph_.blocks.size(); ++block) {
      std::size_t& first = graph_.blocks[block].alike;
      // Ends at the block itself at the latest. Quadratic in the worst case only: layers mostly equal the first one.
      for (first = 0; !are_alike(graph_, first, block);) ++first;
    }
    return std::move(graph_);
  }

 private:
  // One linear layer: its name under the block's prefix, and how it is split.
  struct Linear {
    std::string name;
    ParameterRole role{};
    std::int64_t output = 0;
    std::int64_t input = 0;
    ShardAxis axis = ShardAxis::none;
    std::int64_t experts = 0;  // 0: no axis of experts
  };

  void begin(BlockKind kind, std::int64_t layer, std::string prefix) {
    graph_.blocks.push_back({.kind = kind, .layer = layer, .parameters = {}});
    prefix_ = std::move(prefix);
  }

  void add(Parameter parameter) {
    graph_.blocks.back().parameters.push_back(graph_.parameters.size());
    graph_.parameters.push_back(std::move(parameter));
  }

  void add_embedding_table(std::string name, Role role, std::int64_t rows) {
    const bool is_token = role == Role::token_embedding;
    add({.name = std::move(name),
         .role = role,
         .shape = {rows, model().hidden_size},
         .shard_axis = is_token ? ShardAxis::output : ShardAxis::none,
         .standard_deviation = model().init_std,
         // Learned positions do not decay and are not split: every tensor rank has all of them.
         .decays = is_token});
  }

  // Residual projections start smaller by the root of their number, so that the residual stream's variance does not
  // grow with depth (GPT-2, section 2.3).
  double residual_std() const { return model().init_std / std::sqrt(2.0 * static_cast<double>(model().layers)); }

  void add_weight(const Linear& linear) {
    add({.name = prefix_ + linear.name + ".weight",
         .role = linear.role,
         .shape = with_experts(linear.experts, {linear.output, linear.input}),
         .has_expert_axis = linear.experts > 0,
         .shard_axis = linear.axis,
         .standard_deviation = ends_residual_branch(linear.role) ? residual_std() : model().init_std,
         .decays = true,
         .is_layer_matrix = is_layer_matrix(linear.role)});
  }

  void add_bias(const Linear& linear) {
    add({.name = prefix_ + linear.name + ".bias",
         .role = linear.role,
         .shape = with_experts(linear.experts, {linear.output}),
         .has_expert_axis = linear.experts > 0,
         .shard_axis = linear.axis,
         .initialization = Initialization::zeros});
  }

  void add_ones(const std::string& name, Role role, std::int64_t size) {
    add({.name = prefix_ + name + ".weight", .role = role, .shape = {size}, .initialization = Initialization::ones});
  }

  void add_norm(const std::string& name, Role weight, Role bias) {
    add_ones(name, weight, model().hidden_size);
    // Root-mean-square norms have no shift.
    if (model().bias && model().norm == NormKind::layernorm)
      add_bias({.name = name, .role = bias, .output = model().hidden_size});
  }

  void add_attention() {
    const std::int64_t hidden = model().hidden_size;
    const std::int64_t query = model().heads * model().head_dim;
    const std::int64_t key = model().kv_heads * model().head_dim;
    // Query, key and value split by output features, that is by heads, and the output by input features: one sum over
    // the tensor ranks per half of a layer (arXiv 1909.08053, section 3).
    add_weight({"attention.query", Role::query_weight, query, hidden, ShardAxis::output});
    add_weight({"attention.key", Role::key_weight, key, hidden, ShardAxis::output});
    add_weight({"attention.value", Role::value_weight, key, hidden, ShardAxis::output});
    if (model().qkv_bias) {
      add_bias({"attention.query", Role::query_bias, query, 0, ShardAxis::output});
      add_bias({"attention.key", Role::key_bias, key, 0, ShardAxis::output});
      add_bias({"attention.value", Role::value_bias, key, 0, ShardAxis::output});
    }
    if (model().qk_norm) {
      add_ones("attention.query_norm", Role::query_norm_weight, model().head_dim);
      add_ones("attention.key_norm", Role::key_norm_weight, model().head_dim);
    }
    add_weight({"attention.output", Role::attention_output_weight, hidden, query, ShardAxis::input});
    if (model().bias) add_bias({"attention.output", Role::attention_output_bias, hidden});
  }

  void add_router() {
    const MixtureOfExpertsRecipe& moe = *model().moe;
    if (moe.router == Router::linear)
      return add_weight({"ffn.router", Role::router_weight, moe.experts, model().hidden_size});
    // The cosine router projects tokens into a space of its own before it compares them with the experts.
    add_weight({"ffn.router_projection", Role::router_projection_weight, cosine_router_width, model().hidden_size});
    add_weight({"ffn.router", Role::router_weight, moe.experts, cosine_router_width});
    add({.name = prefix_ + "ffn.router.temperature",
         .role = Role::router_temperature,
         .shape = {1},
         .initialization = Initialization::zeros});
  }

  void add_feed_forward(const std::string& name, const FeedForwardRoles& roles, std::int64_t inner,
                        std::int64_t experts) {
    const std::int64_t hidden = model().hidden_size;
    const bool gated = model().activation == Activation::swiglu;
    // Gate and up next to each other, weights before biases: each pair is one matrix for one product.
    if (gated) add_weight({name + ".gate", roles.gate_weight, inner, hidden, ShardAxis::output, experts});
    add_weight({name + ".up", roles.up_weight, inner, hidden, ShardAxis::output, experts});
    if (gated && model().bias) add_bias({name + ".gate", roles.gate_bias, inner, 0, ShardAxis::output, experts});
    if (model().bias) add_bias({name + ".up", roles.up_bias, inner, 0, ShardAxis::output, experts});
    add_weight({name + ".down", roles.down_weight, hidden, inner, ShardAxis::input, experts});
    if (model().bias) add_bias({name + ".down", roles.down_bias, hidden, 0, ShardAxis::none, experts});
  }

  void add_experts() {
    const MixtureOfExpertsRecipe& moe = *model().moe;
    add_router();
    if (moe.shared_gate) add_weight({"ffn.shared_gate", Role::shared_gate_weight, 1, model().hidden_size});
    // Several shared experts compute the same as one that is as wide as all of them.
    if (moe.shared_experts > 0)
      add_feed_forward("ffn.shared", dense_roles, moe.shared_experts * moe.ffn_hidden_size, 0);
    add_feed_forward("ffn.experts", routed_roles, moe.ffn_hidden_size, moe.experts);
  }

  // Of the block's matrices, and after all of these, so that those which are multiplied as one stay adjacent.
  void add_adapters() {
    const std::vector<std::size_t> matrices = graph_.blocks.back().parameters;
    for (const std::size_t index : matrices)
      for (Parameter& parameter : adapters_.of(graph_.parameters[index])) add(std::move(parameter));
  }

  const ModelRecipe& model() const { return graph_.model; }

  Graph graph_;
  Adapters adapters_;
  std::string prefix_;
};

}  // namespace

Graph Graph::build(const ModelRecipe& model, const HighPrecisionRecipe& high_precision,
                   const std::vector<std::string>& frozen) {
  GraphBuilder builder(model);
  builder.add_embedding();
  for (std::int64_t layer = 0; layer < model.layers; ++layer) builder.add_layer(layer);
  builder.add_head();
  return builder.take(high_precision, frozen);
}

Graph Graph::build_with_routing(const ModelRecipe& model, const HighPrecisionRecipe& high_precision,
                                const std::vector<std::string>& frozen) {
  Graph graph = build(model, high_precision, frozen);
  if (!model.moe || !model.moe->replays()) return graph;
  graph.routing = std::make_shared<const ReplayedRouting>(model);
  if (!graph.routing->depends_on_layer()) return graph;
  for (std::size_t block = 0; block < graph.blocks.size(); ++block)
    if (graph.blocks[block].kind == BlockKind::layer && has_experts(model, graph.blocks[block].layer))
      graph.blocks[block].alike = block;
  return graph;
}

}  // namespace llmtrain
