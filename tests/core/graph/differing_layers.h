// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "core/graph/graph.h"
#include "core/recipe/recipe.h"

namespace llmtrain::test {

// A graph of the first one's blocks, but for those of the given layers, which are the other ones'. The models have
// equally many layers and the same hidden size.
inline Graph with_layers(const Graph& whole, const std::map<std::int64_t, Graph>& others) {
  Graph graph = whole;
  graph.parameters.clear();
  std::map<std::size_t, std::size_t> moved;  // the whole one's parameters that stay, to their new indices
  for (std::size_t index = 0; index < graph.blocks.size(); ++index) {
    const LayerSettings* const layer = whole.blocks[index].layer();
    const bool differs = layer != nullptr && others.contains(layer->index);
    const Graph& from = differs ? others.at(layer->index) : whole;
    Block& block = graph.blocks[index];
    block = from.blocks[index];
    block.alike = index;
    block.parameters.clear(), block.shared.clear();
    for (const std::size_t parameter : from.blocks[index].parameters) {
      if (!differs) moved[parameter] = graph.parameters.size();
      block.parameters.push_back(graph.parameters.size());
      graph.parameters.push_back(from.parameters[parameter]);
    }
    for (const Block::Shared& shared : from.blocks[index].shared)
      graph.share(moved.at(shared.parameter), index, shared.local_name);
  }
  return graph;
}

// The third layer has a narrower network with another activation, fewer heads of keys and values, norms of both,
// biases, other rotations and another norm; the fourth has heads of another size, and dropout.
inline Graph differing_graph(const ModelRecipe& model) {
  ModelRecipe third = model, fourth = model;
  third.ffn_hidden_size = 20;
  third.activation = Activation::gelu;
  third.kv_heads = 1;
  third.set_biases(true);
  third.qk_norm = true;
  third.rope_theta = 50;
  third.norm = NormKind::layernorm;
  fourth.heads = 8;
  fourth.head_dim = 6;
  fourth.dropout = 0.1;
  return with_layers(Graph::build(model), {{2, Graph::build(third)}, {3, Graph::build(fourth)}});
}

}  // namespace llmtrain::test
