// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/recipe.h"

namespace llmtrain {

// Has all layers recompute the same, in place of what the recipe lists by layer: a list that stayed would win over the
// word, and the layout would be priced with another choice than its recipe names.
inline void recompute_in_all_layers(MemoryRecipe& memory, Recompute recompute) {
  memory.recompute = recompute;
  memory.recompute_of_layers.clear();
}

}  // namespace llmtrain
