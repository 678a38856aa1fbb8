// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "parallel/layout/layout.h"
#include "tests/core/graph/differing_layers.h"

namespace llmtrain::test {

// The layout of such a model, of four layers at least, on this many ranks of one node.
inline std::shared_ptr<const Layout> differing_layout(Recipe recipe, int ranks) {
  recipe.launch.ranks = ranks;
  return std::make_shared<const Layout>(
      Partition::make(recipe, ranks, std::make_shared<const Graph>(differing_graph(recipe.model))));
}

}  // namespace llmtrain::test
