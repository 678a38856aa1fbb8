// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "core/recipe/recipe.h"
#include "parallel/layout/layout.h"

namespace llmtrain::test {

// What some layers read of layer 0, in place of their own: a vector and three matrices, of which two are multiplied as
// one.
constexpr std::array<std::string_view, 4> shared_names{"ffn_norm.weight", "ffn.gate.weight", "ffn.up.weight",
                                                       "ffn.down.weight"};
constexpr std::array<std::int64_t, 2> borrowing_layers{3, 4};

// The model's graph, in which three layers share the weights of their second half.
inline std::shared_ptr<const Graph> sharing_graph(const ModelRecipe& model) {
  const Graph whole = Graph::build(model);
  Graph graph = whole;
  graph.parameters.clear();
  std::map<std::size_t, std::size_t> moved;  // of the parameters that stay, to their new indices
  for (std::size_t index = 0; index < graph.blocks.size(); ++index) {
    Block& block = graph.blocks[index];
    block.parameters.clear(), block.shared.clear();
    block.alike = index;
    const bool borrows = block.layer() != nullptr && std::ranges::count(borrowing_layers, block.layer()->index) > 0;
    for (const std::size_t parameter : whole.blocks[index].parameters) {
      if (borrows && std::ranges::count(shared_names, whole.parameters[parameter].local_name) > 0) continue;
      moved[parameter] = graph.parameters.size();
      block.parameters.push_back(graph.parameters.size());
      graph.parameters.push_back(whole.parameters[parameter]);
      graph.parameters.back().readers = {index};
    }
    for (const Block::Shared& shared : whole.blocks[index].shared)
      graph.share(moved.at(shared.parameter), index, shared.local_name);
    for (const std::string_view name : shared_names)
      if (borrows) graph.share(graph.index_of(graph.parameter(1, name)), index, std::string(name));
  }
  return std::make_shared<const Graph>(std::move(graph));
}

// The layout of such a model on this many ranks of one node.
inline std::shared_ptr<const Layout> sharing_layout(Recipe recipe, int ranks) {
  recipe.launch.ranks = ranks;
  const std::shared_ptr<const Graph> graph = sharing_graph(recipe.model);
  return std::make_shared<const Layout>(Partition::make(recipe, ranks, graph));
}

}  // namespace llmtrain::test
