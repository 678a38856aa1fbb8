// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/inference/layer_shape.h"

#include <cstdint>

#include "parallel/plan/inference/served_pass.h"

namespace llmtrain {
namespace {

// The matrices of a half, by the place of their names in the layer.
double matrix_elements(const Graph& graph, std::size_t block, std::string_view half) {
  double sum = 0;
  for (const std::size_t index : graph.blocks[block].parameters) {
    const Parameter& parameter = graph.parameters[index];
    if (parameter.is_layer_matrix && parameter.local_name.starts_with(half)) sum += as_real(parameter.elements());
  }
  return sum;
}

// With latent attention the projections from the latent to keys and values are multiplied into queries and results,
// so that single tokens attend to the latent itself (DeepSeek-AI, arXiv 2405.04434, section 2.1.2).
void set_latent(const LatentAttentionRecipe& latent, LayerShape& shape) {
  shape.key_heads = 1;
  shape.cached_rows = 1;
  shape.cached = as_real(latent.key_value_rank + latent.rope_head_dim);
  shape.score_width = shape.cached;
  shape.value_width = as_real(latent.key_value_rank);
}

}  // namespace

LayerShape layer_shape(const Graph& graph, std::size_t block) {
  const LayerSettings& layer = *graph.blocks[block].layer();
  const AttentionSettings& attention = layer.attention;
  const double value_size = as_real(attention.latent ? attention.latent->value_head_dim : attention.head_dim);
  LayerShape shape;
  shape.width = as_real(layer.hidden_size);
  shape.has_one_input = layer.parallel != ParallelResidual::none;
  shape.heads = as_real(attention.heads);
  shape.query = shape.heads * as_real(attention.head_dim);
  shape.key_heads = as_real(attention.kv_heads);
  shape.score_width = as_real(attention.head_dim);
  shape.value_width = value_size;
  shape.cached = shape.score_width + shape.value_width;
  if (attention.latent) set_latent(*attention.latent, shape);
  if (attention.window) shape.window = as_real(*attention.window);
  shape.attention = {shape.query + shape.key_heads * shape.cached, shape.heads * value_size,
                     matrix_elements(graph, block, "attention.")};
  const FeedForwardSettings& network = layer.feed_forward;
  double features = as_real(network.width);
  if (const auto& experts = network.experts)
    features = as_real(experts->ffn_hidden_size * (experts->top_k + experts->shared_experts));
  shape.feed_forward = {(is_gated(network.activation) ? 2 : 1) * features, features,
                        matrix_elements(graph, block, "ffn.")};
  return shape;
}

}  // namespace llmtrain
