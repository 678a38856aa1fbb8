// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "core/graph/marks/token_dropping.h"
#include "core/recipe/recipe.h"
#include "parallel/layout/layout.h"
#include "tests/core/model/branching_model.h"

namespace llmtrain::test {

// The layout of a model whose values branch (branch()) on this many ranks of one node; its blocks are made by
// make_summing_block().
inline std::shared_ptr<const Layout> branching_layout(Recipe recipe, int ranks) {
  recipe.launch.ranks = ranks;
  Graph graph = Graph::build(recipe.model);
  if (const auto& dropping = recipe.training.token_dropping) drop_tokens(graph, *dropping);
  branch(graph);
  return std::make_shared<const Layout>(
      Partition::make(recipe, ranks, std::make_shared<const Graph>(std::move(graph))));
}

}  // namespace llmtrain::test
