// SPDX-License-Identifier: Apache-2.0
#include "core/graph/marks/token_dropping.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace llmtrain {
namespace {

bool drops(const Block& block) { return block.layer() != nullptr && block.layer()->drops_tokens; }

}  // namespace

void drop_tokens(Graph& graph, const TokenDroppingRecipe& recipe) {
  const std::int64_t end = graph.units() - recipe.last_layers;
  std::int64_t unit = 0;           // the index of the next one
  std::vector<std::size_t> alike;  // of blocks without dropping
  for (Block& block : graph.blocks) {
    alike.push_back(block.alike);
    if (LayerSettings* const layer = std::get_if<LayerSettings>(&block.settings))
      layer->drops_tokens = unit >= recipe.first_layers && unit < end;
    if (block.is_unit) ++unit;
  }
  const auto are_alike = [&](std::size_t a, std::size_t b) {
    return alike[a] == alike[b] && drops(graph.blocks[a]) == drops(graph.blocks[b]);
  };
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    std::size_t& first = graph.blocks[block].alike;
    // Ends at the block itself at the latest.
    for (first = 0; !are_alike(first, block);) ++first;
  }
}

}  // namespace llmtrain
