// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/graph/graph.h"

namespace llmtrain {

// Freezes the parameters whose names match one of the patterns, in which * stands for any text. Throws
// Error(bad_recipe) where a pattern matches no parameter, where of parameters that are multiplied as one matrix some
// would be frozen and some trained, and where nothing is left to train. Beside adapters all other parameters are
// frozen but those of modules to save (core/graph/marks/saved_modules.h). Marks the blocks that have no backward then.
void freeze(Graph& graph, const std::vector<std::string>& patterns);

// Marks the matrices of the graph that stay in high precision: those of the first and the last layers, as counted, and
// those whose names match a pattern, with what they are multiplied with as one matrix. Throws Error(bad_recipe) where a
// pattern matches no layer's matrix.
void keep_precision(Graph& graph, const HighPrecisionRecipe& high_precision);

}  // namespace llmtrain
