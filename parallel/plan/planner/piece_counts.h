// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain {

// The numbers of pieces of bodies that are tried beside the recipe's own memory.chunks, ascending: none where the
// recipe says how many, or has no bodies.
inline std::vector<std::int64_t> more_pieces(const Recipe& recipe) {
  // Small batches have no more tokens, and pieces of single rows are slow.
  constexpr std::int64_t most = 64;
  std::vector<std::int64_t> counts;
  if (recipe.memory.chunks != 1 || !has_bodies(recipe.model.architecture)) return counts;
  for (std::int64_t count = 2; count <= most; count *= 2) counts.push_back(count);
  return counts;
}

}  // namespace llmtrain
