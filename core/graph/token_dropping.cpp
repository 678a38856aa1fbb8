// SPDX-License-Identifier: Apache-2.0
#include "core/graph/token_dropping.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace llmtrain {

void drop_tokens(Graph& graph, const TokenDroppingRecipe& recipe) {
  const std::int64_t end = graph.model.layers - recipe.last_layers;
  std::vector<std::size_t> alike;  // of blocks without dropping
  for (Block& block : graph.blocks) {
    alike.push_back(block.alike);
    block.drops_tokens = block.kind == BlockKind::layer && block.layer >= recipe.first_layers && block.layer < end;
  }
  const auto are_alike = [&](std::size_t a, std::size_t b) {
    return alike[a] == alike[b] && graph.blocks[a].drops_tokens == graph.blocks[b].drops_tokens;
  };
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    std::size_t& first = graph.blocks[block].alike;
    // Ends at the block itself at the latest.
    for (first = 0; !are_alike(first, block);) ++first;
  }
}

}  // namespace llmtrain
