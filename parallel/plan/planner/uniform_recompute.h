// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain {

// The words to choose from: "computation" equals "full" where there is nothing to exchange.
inline std::vector<Recompute> recompute_choices(const ParallelRecipe& parallel) {
  if (!exchanges_activations(parallel)) return {Recompute::none, Recompute::selective, Recompute::full};
  return {Recompute::none, Recompute::selective, Recompute::computation, Recompute::full};
}

// Has all layers recompute the same, in place of what the recipe lists by layer: a list that stayed would win over the
// word, and the layout would be priced with another choice than its recipe names.
inline void recompute_in_all_layers(MemoryRecipe& memory, Recompute recompute) {
  memory.recompute = recompute;
  memory.recompute_of_layers.clear();
}

}  // namespace llmtrain
