// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "parallel/layout/layout.h"
#include "tests/core/graph/two_headed_graph.h"

namespace llmtrain::test {

// The layout of the recipe's model with a second head (two_headed_graph()) on this many ranks of one node.
inline std::shared_ptr<const Layout> two_headed_layout(Recipe recipe, int ranks, std::optional<std::int64_t> layer = {},
                                                       HeadPlace place = HeadPlace::last) {
  recipe.launch.ranks = ranks;
  const auto graph = std::make_shared<const Graph>(two_headed_graph(recipe.model, layer, place));
  return std::make_shared<const Layout>(Partition::make(recipe, ranks, graph));
}

}  // namespace llmtrain::test
