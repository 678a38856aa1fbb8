// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "core/graph/blocks/graph_writer.h"
#include "core/graph/graph.h"
#include "core/graph/presets/encoder.h"
#include "core/graph/presets/encoder_decoder.h"
#include "core/graph/presets/image_classifier.h"
#include "core/graph/replayed_routing.h"

namespace llmtrain {

namespace {

NormSettings norm_settings(const ModelRecipe& model) { return {model.norm, model.norm_eps}; }

AttentionSettings attention_settings(const ModelRecipe& model, std::int64_t layer) {
  AttentionSettings settings{
      .heads = model.heads, .kv_heads = model.kv_heads, .head_dim = model.head_dim, .dropout = model.dropout};
  // As in Qwen3.
  if (model.qk_norm) settings.head_norm_epsilon = model.norm_eps;
  settings.latent = model.latent_attention;
  settings.scale = model.attention_scale;
  settings.has_sinks = model.attention_sinks;
  settings.has_gate = model.attention_gate;
  const std::int64_t rotated =
      settings.latent ? settings.latent->rope_head_dim : model.rotary_dim.value_or(model.head_dim);
  if (model.position == Position::rope)
    settings.rope = {model.max_sequence_length, rotated, model.rope_theta, model.rope_scaling};
  if (!model.sliding_window || !model.sliding_window->is_local(layer)) return settings;
  settings.window = model.sliding_window->tokens;
  if (!settings.rope) return settings;
  settings.rope->theta = model.sliding_window->rope_theta;
  if (!model.sliding_window->rope_scaling) settings.rope->scaling.reset();
  return settings;
}

LayerSettings layer_settings(const ModelRecipe& model, std::int64_t layer) {
  LayerSettings settings{.index = layer,
                         .hidden_size = model.hidden_size,
                         .norm = norm_settings(model),
                         .dropout = model.dropout,
                         .attention = attention_settings(model, layer),
                         .feed_forward = {model.activation, model.ffn_hidden_size}};
  settings.parallel = model.parallel_residual;
  const LayerKind kind = model.kind_of(layer);
  settings.has_mixer = kind.has_mixer;
  settings.has_feed_forward = kind.has_feed_forward;
  if (kind.is_linear) settings.linear_attention = model.linear_attention;
  settings.has_post_norms = model.post_norms;
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
                    parameter.is_high_precision, parameter.is_frozen, parameter.is_packed);
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
  return graph.blocks[a].has_backward == graph.blocks[b].has_backward &&
         are_alike(graph.blocks[a].settings, graph.blocks[b].settings) &&
         std::ranges::equal(graph.blocks[a].inputs, graph.blocks[b].inputs, has_same_shape) &&
         std::ranges::equal(graph.blocks[a].outputs, graph.blocks[b].outputs, has_same_shape) &&
         std::ranges::equal(graph.blocks[a].parameters, graph.blocks[b].parameters, is_same) &&
         std::ranges::equal(graph.blocks[a].shared, graph.blocks[b].shared, is_shared_alike);
}

EmbeddingSettings embedding_settings(const ModelRecipe& model) {
  return {model.hidden_size, model.position == Position::learned, model.dropout, model.embedding_scale};
}

void mark_alike(Graph& graph) {
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    std::size_t& first = graph.blocks[block].alike;
    // Ends at the block itself at the latest. Quadratic in the worst case only: layers mostly equal the first one.
    for (first = 0; !are_alike(graph, first, block);) ++first;
  }
}

Graph finished(GraphWriter& writer, const HighPrecisionRecipe& high_precision, const std::vector<std::string>& frozen) {
  Graph graph = writer.take(high_precision, frozen);
  mark_alike(graph);
  return graph;
}

// Behind the head, whose stage they share.
void add_predictions(GraphWriter& writer, const ModelRecipe& model) {
  const std::int64_t depth = model.multi_token_prediction->depth;
  for (std::int64_t further = 1; further <= depth; ++further) {
    const std::string name = "prediction." + std::to_string(further);
    LayerSettings layer = layer_settings(model, model.layers + further - 1);
    layer.predicts = true;
    writer.add_block(name, layer);
    writer.add_block(name + ".head", HeadSettings{.hidden_size = model.hidden_size,
                                                  .vocabulary = model.vocab_size,
                                                  .norm = norm_settings(model),
                                                  .further = further,
                                                  .coefficient = model.multi_token_prediction->coefficient /
                                                                 static_cast<double>(depth)});
  }
}

}  // namespace

Graph Graph::build(const ModelRecipe& model, const HighPrecisionRecipe& high_precision,
                   const std::vector<std::string>& frozen) {
  GraphWriter writer(model);
  if (is_encoder(model.architecture)) {
    write_encoder(writer);
    return finished(writer, high_precision, frozen);
  }
  if (is_encoder_decoder(model.architecture)) {
    write_encoder_decoder(writer);
    return finished(writer, high_precision, frozen);
  }
  if (is_image_classifier(model.architecture)) {
    write_image_classifier(writer);
    return finished(writer, high_precision, frozen);
  }
  writer.add_block("embedding", embedding_settings(model));
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    writer.add_block("layers." + std::to_string(layer), layer_settings(model, layer));
  writer.add_block("head", HeadSettings{model.hidden_size, model.vocab_size, norm_settings(model)});
  if (model.multi_token_prediction) add_predictions(writer, model);
  return finished(writer, high_precision, frozen);
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
