// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/graph/adapters.h"
#include "core/graph/graph.h"
#include "core/graph/marks/parameter_marks.h"
#include "core/graph/replayed_routing.h"

namespace llmtrain {

namespace {

// The axes of a linear layer's weight, beside that of experts; a bias has rows alone.
constexpr std::size_t rows = 0, columns = 1;

Split even(std::size_t axis, std::int64_t units) { return {Split::Kind::even, axis, units}; }
Split repeated(std::size_t axis, std::int64_t units) { return {Split::Kind::repeated, axis, units}; }
Split padded(std::size_t axis, std::int64_t units) { return {Split::Kind::padded, axis, units}; }

NormSettings norm_settings(const ModelRecipe& model) { return {model.norm, model.norm_eps}; }

AttentionSettings attention_settings(const ModelRecipe& model) {
  AttentionSettings settings{
      .heads = model.heads, .kv_heads = model.kv_heads, .head_dim = model.head_dim, .dropout = model.dropout};
  // As in Qwen3.
  if (model.qk_norm) settings.head_norm_epsilon = model.norm_eps;
  if (model.position == Position::rope)
    settings.rope = {model.max_sequence_length, model.head_dim, model.rope_theta, model.rope_scaling};
  return settings;
}

LayerSettings layer_settings(const ModelRecipe& model, std::int64_t layer) {
  LayerSettings settings{.index = layer,
                         .hidden_size = model.hidden_size,
                         .norm = norm_settings(model),
                         .dropout = model.dropout,
                         .attention = attention_settings(model),
                         .feed_forward = {model.activation, model.ffn_hidden_size}};
  if (has_experts(model, layer)) settings.feed_forward.experts = model.moe;
  return settings;
}

// Positions in the model do not matter.
bool are_alike(BlockSettings left, BlockSettings right) {
  for (BlockSettings* const settings : {&left, &right})
    if (LayerSettings* const layer = std::get_if<LayerSettings>(settings)) layer->index = 0;
  return left == right;
}

// Blocks of equal settings and shapes cost the same.
bool are_alike(const Graph& graph, std::size_t a, std::size_t b) {
  const auto facts = [](const Parameter& parameter) {
    return std::tie(parameter.local_name, parameter.shape, parameter.split, parameter.joined,
                    parameter.is_high_precision, parameter.is_frozen);
  };
  const auto is_same = [&](std::size_t left_index, std::size_t right_index) {
    const Parameter &left = graph.parameters[left_index], &right = graph.parameters[right_index];
    return facts(left) == facts(right) && left.adapter.has_value() == right.adapter.has_value();
  };
  const auto is_shared_alike = [&](const Block::Shared& left, const Block::Shared& right) {
    return left.local_name == right.local_name && is_same(left.parameter, right.parameter);
  };
  const auto has_same_shape = [&](std::size_t left, std::size_t right) {
    const Value &one = graph.values[left], &other = graph.values[right];
    return one.rows == other.rows && one.features == other.features;
  };
  return are_alike(graph.blocks[a].settings, graph.blocks[b].settings) &&
         std::ranges::equal(graph.blocks[a].inputs, graph.blocks[b].inputs, has_same_shape) &&
         std::ranges::equal(graph.blocks[a].outputs, graph.blocks[b].outputs, has_same_shape) &&
         std::ranges::equal(graph.blocks[a].parameters, graph.blocks[b].parameters, is_same) &&
         std::ranges::equal(graph.blocks[a].shared, graph.blocks[b].shared, is_shared_alike);
}

// Makes the settings of blocks, and appends them and their parameters to a Graph in the order of the data: embedding,
// layers, head.
class GraphBuilder {
 public:
  explicit GraphBuilder(const ModelRecipe& model) : adapters_(model.lora) { graph_.model = model; }

  void add_embedding() {
    begin("embedding", EmbeddingSettings{.hidden_size = model().hidden_size,
                                         .has_positions = model().position == Position::learned,
                                         .dropout = model().dropout});
    make_value();
    add(table("token.weight", model().vocab_size));
    if (model().position != Position::learned) return;
    // Learned positions do not decay and are not split: every tensor rank has all of them.
    Parameter positions = table("position.weight", model().max_sequence_length);
    positions.split = {};
    positions.decays = false;
    add(std::move(positions));
  }

  void add_layer(std::int64_t layer) {
    const LayerSettings settings = layer_settings(model(), layer);
    begin("layers." + std::to_string(layer), settings);
    read_value();
    make_value();
    graph_.blocks.back().is_unit = true;
    add_norm("attention_norm", settings.norm);
    add_attention(settings.attention);
    add_norm("ffn_norm", settings.norm);
    if (settings.feed_forward.experts) {
      add_experts(*settings.feed_forward.experts, settings.feed_forward.activation);
    } else {
      add_feed_forward("ffn", settings.feed_forward.activation, settings.feed_forward.width, 0);
    }
    add_adapters();
  }

  void add_head() {
    const NormSettings norm = norm_settings(model());
    begin("head", HeadSettings{model().hidden_size, model().vocab_size, norm});
    read_value();
    raise(loss_names::head, 1, true);
    prefix_.clear();
    add_norm("final_norm", norm);
    if (!model().tie_embeddings) return add(table("head.weight", model().vocab_size));
    const Parameter& tokens = graph_.parameter(graph_.block_named("embedding"), "token.weight");
    graph_.share(graph_.index_of(tokens), graph_.blocks.size() - 1, "head.weight");
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
  // One linear layer: its name within the block, and how it is split.
  struct Linear {
    std::string name;
    std::int64_t output = 0;
    std::int64_t input = 0;
    Split split{};
    Joined joined = Joined::none;
    std::int64_t experts = 0;  // 0: no axis of experts
  };

  // Its parameters have the block's name before their own.
  void begin(const std::string& name, BlockSettings settings) {
    graph_.blocks.push_back({.name = name, .settings = std::move(settings)});
    prefix_ = name + ".";
  }

  // The one that the block before makes.
  void read_value() { graph_.blocks.back().inputs = {graph_.values.size() - 1}; }
  // With the block's name.
  void make_value() {
    Block& block = graph_.blocks.back();
    block.outputs = {graph_.values.size()};
    graph_.values.push_back({.name = block.name, .rows = 0, .features = {block.hidden_size()}});
  }

  // The last block raises this term.
  void raise(std::string_view name, double coefficient, bool is_of_rows) {
    graph_.raise({std::string(name), graph_.blocks.size() - 1, coefficient, is_of_rows});
  }

  // With its local name alone.
  void add(Parameter parameter) {
    parameter.name = prefix_ + parameter.local_name;
    parameter.readers = {graph_.blocks.size() - 1};
    graph_.blocks.back().parameters.push_back(graph_.parameters.size());
    graph_.parameters.push_back(std::move(parameter));
  }

  Parameter table(std::string name, std::int64_t size) const {
    return {.local_name = std::move(name),
            .shape = {size, model().hidden_size},
            .split = padded(rows, size),
            .standard_deviation = model().init_std,
            .decays = true,
            .is_table = true};
  }

  // Residual projections start smaller by the root of their number, so that the residual stream's variance does not
  // grow with depth (GPT-2, section 2.3).
  double residual_std() const { return model().init_std / std::sqrt(2.0 * static_cast<double>(model().layers)); }

  // A weight or a bias, of experts where there are any.
  static Parameter part_of(const Linear& linear, const char* name, std::vector<std::int64_t> shape) {
    Parameter parameter{.local_name = linear.name + name,
                        .shape = std::move(shape),
                        .has_expert_axis = linear.experts > 0,
                        .split = linear.split,
                        .joined = linear.joined};
    if (linear.experts == 0) return parameter;
    parameter.shape.insert(parameter.shape.begin(), linear.experts);
    if (parameter.split.kind != Split::Kind::none) ++parameter.split.axis;
    return parameter;
  }

  Parameter weight(const Linear& linear) const {
    Parameter parameter = part_of(linear, ".weight", {linear.output, linear.input});
    parameter.standard_deviation = model().init_std;
    parameter.decays = true;
    return parameter;
  }

  void add_matrix(const Linear& linear) {
    Parameter parameter = weight(linear);
    parameter.is_layer_matrix = true;
    add(std::move(parameter));
  }

  // A matrix whose output is added to the residual stream.
  void add_last_matrix(const Linear& linear) {
    Parameter parameter = weight(linear);
    parameter.is_layer_matrix = true;
    parameter.standard_deviation = residual_std();
    add(std::move(parameter));
  }

  void add_bias(const Linear& linear) {
    Parameter parameter = part_of(linear, ".bias", {linear.output});
    parameter.initialization = Initialization::zeros;
    add(std::move(parameter));
  }

  void add_norm(const std::string& name, const NormSettings& norm) {
    add({.local_name = name + ".weight", .shape = {model().hidden_size}, .initialization = Initialization::ones});
    // Root-mean-square norms have no shift.
    if (model().bias && norm.kind == NormKind::layernorm) add_bias({.name = name, .output = model().hidden_size});
  }

  // One weight for all heads, of which each rank has some.
  void add_head_norm(const std::string& name, std::int64_t head_dim) {
    add({.local_name = name + ".weight",
         .shape = {head_dim},
         .sums_over_ranks = true,
         .initialization = Initialization::ones});
  }

  void add_attention(const AttentionSettings& attention) {
    const std::int64_t hidden = model().hidden_size, heads = attention.heads, kv_heads = attention.kv_heads;
    const std::int64_t query = heads * attention.head_dim, key = kv_heads * attention.head_dim;
    // Query, key and value split by output features, that is by heads, and the output by input features: one sum over
    // the tensor ranks per half of a layer (arXiv 1909.08053, section 3). They are adjacent, weights before biases, so
    // that flat storage makes them one matrix.
    const Linear projections[] = {{"attention.query", query, hidden, even(rows, heads)},
                                  {"attention.key", key, hidden, repeated(rows, kv_heads), Joined::product},
                                  {"attention.value", key, hidden, repeated(rows, kv_heads), Joined::product}};
    for (const Linear& projection : projections) add_matrix(projection);
    for (const Linear& projection : projections)
      if (model().qkv_bias) add_bias(projection);
    if (attention.head_norm_epsilon) {
      add_head_norm("attention.query_norm", attention.head_dim);
      add_head_norm("attention.key_norm", attention.head_dim);
    }
    add_last_matrix({"attention.output", hidden, query, even(columns, heads)});
    if (model().bias) add_bias({"attention.output", hidden});
  }

  // Routers are small, and what they choose is sensitive: they are no layer's matrices. Each tensor rank routes tokens
  // of its own.
  void add_router_weight(const std::string& name, std::int64_t output, std::int64_t input) {
    Parameter parameter = weight({name, output, input});
    parameter.sums_over_ranks = true;
    add(std::move(parameter));
  }

  // The cosine router projects tokens into a space of its own before it compares them with the experts, and scales the
  // cosines by 2·exp(τ), at most 100, where the temperature τ starts at 0 (Chi et al., arXiv 2204.09179).
  void add_router(const MixtureOfExpertsRecipe& moe) {
    if (moe.router == Router::linear) return add_router_weight("ffn.router", moe.experts, model().hidden_size);
    add_router_weight("ffn.router_projection", cosine_router_width, model().hidden_size);
    add_router_weight("ffn.router", moe.experts, cosine_router_width);
    add({.local_name = "ffn.router.temperature",
         .shape = {1},
         .sums_over_ranks = true,
         .initialization = Initialization::zeros});
  }

  void add_feed_forward(const std::string& name, Activation activation, std::int64_t inner, std::int64_t experts) {
    const std::int64_t hidden = model().hidden_size;
    const Split split = even(rows, inner);
    std::vector<Linear> first;
    if (activation == Activation::swiglu) first.push_back({name + ".gate", inner, hidden, split, {}, experts});
    // Gate and up next to each other, weights before biases: each pair is one matrix for one product, but that of
    // experts, whose grouped products are two.
    const Joined joined = experts > 0 ? Joined::input : Joined::product;
    first.push_back({name + ".up", inner, hidden, split, first.empty() ? Joined::none : joined, experts});
    for (const Linear& linear : first) add_matrix(linear);
    for (const Linear& linear : first)
      if (model().bias) add_bias(linear);
    add_last_matrix({name + ".down", hidden, inner, even(columns, inner), {}, experts});
    if (model().bias) add_bias({name + ".down", hidden, 0, {}, {}, experts});
  }

  void add_experts(const MixtureOfExpertsRecipe& moe, Activation activation) {
    add_router(moe);
    if (moe.balances()) raise(loss_names::balance, moe.balance_coefficient, false);
    if (moe.z_coefficient > 0) raise(loss_names::z, moe.z_coefficient, false);
    if (moe.shared_gate) add(weight({"ffn.shared_gate", 1, model().hidden_size}));
    // Several shared experts compute the same as one that is as wide as all of them.
    if (moe.shared_experts > 0) add_feed_forward("ffn.shared", activation, moe.shared_experts * moe.ffn_hidden_size, 0);
    add_feed_forward("ffn.experts", activation, moe.ffn_hidden_size, moe.experts);
  }

  // Adapters of the block's matrices follow all of these, so that those which are multiplied as one stay adjacent.
  void add_adapters() {
    const std::vector<std::size_t> matrices = graph_.blocks.back().parameters;
    for (const std::size_t index : matrices) {
      std::vector<Parameter> adapter = adapters_.of(graph_.parameters[index]);
      if (!adapter.empty()) {
        graph_.parameters[index].adapter = graph_.parameters.size();
        graph_.parameters[index].adapter_scale = adapters_.scale();
      }
      for (Parameter& parameter : adapter) add(std::move(parameter));
    }
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
    if (graph.blocks[block].experts() != nullptr) graph.blocks[block].alike = block;
  return graph;
}

}  // namespace llmtrain
