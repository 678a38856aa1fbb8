// SPDX-License-Identifier: Apache-2.0
#include "core/graph/marks/token_dropping.h"

#include <cstdint>

#include "core/graph/marks/marked_apart.h"

namespace llmtrain {
namespace {

bool drops(const Block& block) { return block.layer() != nullptr && block.layer()->drops_tokens; }

}  // namespace

void drop_tokens(Graph& graph, const TokenDroppingRecipe& recipe) {
  const std::int64_t end = graph.units() - recipe.last_layers;
  std::int64_t unit = 0;  // the index of the next one
  for (Block& block : graph.blocks) {
    if (LayerSettings* const layer = std::get_if<LayerSettings>(&block.settings))
      layer->drops_tokens = unit >= recipe.first_layers && unit < end;
    if (block.is_unit) ++unit;
  }
  set_marked_apart(graph, [](const Block& a, const Block& b) { return drops(a) == drops(b); });
}

}  // namespace llmtrain
