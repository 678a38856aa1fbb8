// SPDX-License-Identifier: Apache-2.0
#include "core/graph/marks/recomputed_layers.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "core/graph/marks/marked_apart.h"

namespace llmtrain {
namespace {

using Levels = std::vector<std::optional<Recompute>>;

Levels levels_of(const Graph& graph, const std::vector<Recompute>& of_layers) {
  Levels levels;
  for (const std::size_t layer : layers_of_blocks(graph)) {
    const Recompute level = layer < of_layers.size() ? of_layers[layer] : Recompute::none;
    levels.push_back(of_layers.empty() ? std::nullopt : std::optional(level));
  }
  return levels;
}

}  // namespace

std::vector<std::size_t> layers_of_blocks(const Graph& graph) {
  std::vector<std::size_t> layers;
  std::size_t begun = 0;
  for (const Block& block : graph.blocks) {
    if (block.is_unit) ++begun;
    layers.push_back(std::max<std::size_t>(begun, 1) - 1);
  }
  return layers;
}

void mark_recompute(Graph& graph, const std::vector<Recompute>& of_layers) {
  const Levels levels = levels_of(graph, of_layers);
  for (std::size_t block = 0; block < levels.size(); ++block) graph.blocks[block].recompute = levels[block];
  set_marked_apart(graph, [](const Block& a, const Block& b) { return a.recompute == b.recompute; });
}

bool has_recompute(const Graph& graph, const std::vector<Recompute>& of_layers) {
  return std::ranges::equal(graph.blocks, levels_of(graph, of_layers), {}, &Block::recompute);
}

}  // namespace llmtrain
