// SPDX-License-Identifier: Apache-2.0
#include "core/graph/blocks/layer.h"

#include <string>
#include <utility>
#include <vector>

#include "core/graph/blocks/graph_writer.h"
#include "core/graph/blocks/linear_attention.h"
#include "core/graph/operators/operator_writer.h"

namespace llmtrain {
namespace {

using Linear = GraphWriter::Linear;

// A root-mean-square norm of the latent vector, which every tensor rank has.
void add_latent_norm(GraphWriter& writer, const std::string& name, std::int64_t rank) {
  writer.add({.local_name = name + ".weight", .shape = {rank}, .initialization = Initialization::ones});
}

// Tensor ranks split the heads, which the projections out of the latent vectors make; all have what leads into them.
void add_latent_attention(GraphWriter& writer, const AttentionSettings& attention) {
  const LatentAttentionRecipe& latent = *attention.latent;
  const std::int64_t hidden = writer.model().hidden_size, heads = attention.heads;
  const std::int64_t query = heads * latent.head_dim(), value = heads * latent.value_head_dim;
  if (latent.query_rank > 0) {
    writer.add_matrix({"attention.query_down", latent.query_rank, hidden});
    add_latent_norm(writer, "attention.query_norm", latent.query_rank);
    writer.add_matrix({"attention.query_up", query, latent.query_rank, even_outputs(heads)});
  } else {
    writer.add_matrix({"attention.query", query, hidden, even_outputs(heads)});
  }
  writer.add_matrix({"attention.key_value_down", latent.key_value_rank + latent.rope_head_dim, hidden});
  add_latent_norm(writer, "attention.key_value_norm", latent.key_value_rank);
  writer.add_matrix({"attention.key_value_up", heads * (latent.nope_head_dim + latent.value_head_dim),
                     latent.key_value_rank, even_outputs(heads)});
  writer.add_last_matrix({"attention.output", hidden, value, even_inputs(heads)});
  if (writer.model().attention_output_bias) writer.add_bias({"attention.output", hidden});
}

// One weight for all heads, of which each rank has some.
void add_head_norm(GraphWriter& writer, const std::string& name, std::int64_t head_dim) {
  writer.add({.local_name = name + ".weight",
              .shape = {head_dim},
              .sums_over_ranks = true,
              .initialization = Initialization::ones});
}

void add_attention(GraphWriter& writer, const AttentionSettings& attention) {
  const std::int64_t hidden = writer.model().hidden_size, heads = attention.heads, kv_heads = attention.kv_heads;
  const std::int64_t query = heads * attention.head_dim, key = kv_heads * attention.head_dim;
  // Query, key and value split by output features, that is by heads, and the output by input features: one sum over the
  // tensor ranks per half of a layer (arXiv 1909.08053, section 3). They are adjacent, weights before biases, so that
  // flat storage makes them one matrix.
  std::vector<Linear> projections = {{"attention.query", query, hidden, even_outputs(heads)},
                                     {"attention.key", key, hidden, repeated_outputs(kv_heads), Joined::product},
                                     {"attention.value", key, hidden, repeated_outputs(kv_heads), Joined::product}};
  if (attention.has_gate)
    projections.push_back({"attention.gate", query, hidden, even_outputs(heads), Joined::product});
  for (const Linear& projection : projections) writer.add_matrix(projection);
  for (const Linear& projection : projections)
    if (writer.model().qkv_bias) writer.add_bias(projection);
  if (attention.head_norm_epsilon) {
    add_head_norm(writer, "attention.query_norm", attention.head_dim);
    add_head_norm(writer, "attention.key_norm", attention.head_dim);
  }
  writer.add_last_matrix({"attention.output", hidden, query, even_inputs(heads)});
  if (writer.model().attention_output_bias) writer.add_bias({"attention.output", hidden});
}

// Each rank has those of its heads.
void add_sinks(GraphWriter& writer, const AttentionSettings& attention) {
  writer.add({.local_name = "attention.sinks",
              .shape = {attention.heads},
              .split = even_outputs(attention.heads),
              .standard_deviation = writer.model().init_std});
}

// Routers are small, and what they choose is sensitive: they are no layer's matrices. Each tensor rank routes tokens of
// its own.
void add_router_weight(GraphWriter& writer, const std::string& name, std::int64_t output, std::int64_t input) {
  Parameter parameter = writer.weight({name, output, input});
  parameter.sums_over_ranks = true;
  writer.add(std::move(parameter));
}

// The cosine router projects tokens into a space of its own before it compares them with the experts, and scales the
// cosines by 2·exp(τ), at most 100, where the temperature τ starts at 0 (Chi et al., arXiv 2204.09179).
void add_router(GraphWriter& writer, const MixtureOfExpertsRecipe& moe) {
  const std::int64_t hidden = writer.model().hidden_size;
  if (moe.router == Router::linear) {
    add_router_weight(writer, "ffn.router", moe.experts, hidden);
    if (!moe.router_bias) return;
    return writer.add({.local_name = "ffn.router.bias",
                       .shape = {moe.experts},
                       .sums_over_ranks = true,
                       .initialization = Initialization::zeros});
  }
  add_router_weight(writer, "ffn.router_projection", cosine_router_width, hidden);
  add_router_weight(writer, "ffn.router", moe.experts, cosine_router_width);
  writer.add({.local_name = "ffn.router.temperature",
              .shape = {1},
              .sums_over_ranks = true,
              .initialization = Initialization::zeros});
}

void add_feed_forward(GraphWriter& writer, const std::string& name, Activation activation, std::int64_t inner,
                      std::int64_t experts) {
  const std::int64_t hidden = writer.model().hidden_size;
  const Split split = even_outputs(inner);
  std::vector<Linear> first;
  if (is_gated(activation)) first.push_back({name + ".gate", inner, hidden, split, {}, experts});
  // Gate and up next to each other, weights before biases: each pair is one matrix for one product, but that of
  // experts, whose grouped products are two.
  const Joined joined = experts > 0 ? Joined::input : Joined::product;
  first.push_back({name + ".up", inner, hidden, split, first.empty() ? Joined::none : joined, experts});
  for (const Linear& linear : first) writer.add_matrix(linear);
  for (const Linear& linear : first)
    if (writer.model().bias) writer.add_bias(linear);
  writer.add_last_matrix({name + ".down", hidden, inner, even_inputs(inner), {}, experts});
  if (writer.model().bias) writer.add_bias({name + ".down", hidden, 0, {}, {}, experts});
}

void add_experts(GraphWriter& writer, const MixtureOfExpertsRecipe& moe, Activation activation) {
  add_router(writer, moe);
  if (moe.balances()) writer.raise(loss_names::balance, moe.balance_coefficient, false);
  if (moe.z_coefficient > 0) writer.raise(loss_names::z, moe.z_coefficient, false);
  if (moe.shared_gate) writer.add(writer.weight({"ffn.shared_gate", 1, writer.model().hidden_size}));
  // Several shared experts compute the same as one that is as wide as all of them.
  if (moe.shared_experts > 0)
    add_feed_forward(writer, "ffn.shared", activation, moe.shared_experts * moe.ffn_hidden_size, 0);
  add_feed_forward(writer, "ffn.experts", activation, moe.ffn_hidden_size, moe.experts);
}

void add_prediction_input(GraphWriter& writer, const NormSettings& norm) {
  const std::int64_t hidden = writer.model().hidden_size;
  writer.share("embedding", "token.weight", "token.weight");
  writer.add_norm("hidden_norm", norm);
  writer.add_norm("embedding_norm", norm);
  writer.add_matrix({"projection", hidden, 2 * hidden});
}

void add_mixer(GraphWriter& writer, const LayerSettings& layer) {
  writer.add_norm("attention_norm", layer.norm);
  if (layer.linear_attention) {
    add_linear_attention(writer, *layer.linear_attention);
  } else {
    layer.attention.latent ? add_latent_attention(writer, layer.attention) : add_attention(writer, layer.attention);
    if (layer.attention.has_sinks) add_sinks(writer, layer.attention);
  }
  if (layer.has_post_norms) writer.add_norm("attention_post_norm", layer.norm);
}

void add_feed_forward_half(GraphWriter& writer, const LayerSettings& layer) {
  if (layer.parallel != ParallelResidual::one_norm) writer.add_norm("ffn_norm", layer.norm);
  if (layer.feed_forward.experts) {
    add_experts(writer, *layer.feed_forward.experts, layer.feed_forward.activation);
  } else {
    add_feed_forward(writer, "ffn", layer.feed_forward.activation, layer.feed_forward.width, 0);
  }
  if (layer.has_post_norms) writer.add_norm("ffn_post_norm", layer.norm);
}

}  // namespace

void write_graph(GraphWriter& writer, const LayerSettings& layer) {
  writer.read_value();
  writer.make_value();
  writer.block().is_unit = !layer.predicts;
  if (layer.predicts) add_prediction_input(writer, layer.norm);
  if (layer.has_mixer) add_mixer(writer, layer);
  if (layer.has_feed_forward) add_feed_forward_half(writer, layer);
  writer.add_adapters();
}

void write_operators(OperatorWriter& writer, const LayerSettings& layer) {
  if (layer.predicts) write_prediction_input(writer, layer);
  writer.begin_half(LayerHalf::attention);
  if (layer.has_mixer) write_attention(writer, layer);
  writer.begin_half(LayerHalf::feed_forward);
  if (layer.has_feed_forward) write_feed_forward(writer, layer);
  writer.begin_half(LayerHalf::none);
}

}  // namespace llmtrain
