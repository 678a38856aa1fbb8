// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/graph.h"

namespace llmtrain {

// Marks the matrices of the graph that stay in high precision: those of the first and the last layers, as counted, and
// those whose names match a pattern, with what they are multiplied with as one matrix. Throws Error(bad_recipe) where a
// pattern matches no layer's matrix.
void keep_precision(Graph& graph, const HighPrecisionRecipe& high_precision);

}  // namespace llmtrain
