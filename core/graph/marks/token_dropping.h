// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/graph.h"

namespace llmtrain {

// Marks the layers that drop tokens: those between the first and the last ones of the recipe. They are priced apart
// from layers that see all tokens.
void drop_tokens(Graph& graph, const TokenDroppingRecipe& recipe);

}  // namespace llmtrain
