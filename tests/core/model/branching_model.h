// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/graph/graph.h"
#include "core/model/stage.h"

namespace llmtrain::test {

// Lets the values of a model of at least six layers branch. Layers 1 and 2 read what layer 0 makes, layer 3 the sum of
// what these two make, and layer 5 the sum of what layers 4 and 0 make: one value has three readers, one is read by the
// layer after the next alone.
void branch(Graph& graph);
Graph branching_graph(const ModelRecipe& model);

// A BlockFactory by which a block with two inputs reads their sum.
std::unique_ptr<BlockModule> make_summing_block(const BlockParameters& parameters, const StageOptions& options,
                                                KeptExchanges* kept);

}  // namespace llmtrain::test
