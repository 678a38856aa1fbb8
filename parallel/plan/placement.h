// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/graph.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// Which blocks of the Graph each stage holds, in order; every block is in exactly one stage.
struct Stage {
  std::vector<std::size_t> blocks;
};

// Splits the blocks over pipeline × loops stages as `pipeline.balance` says: "layers" gives every stage the same number
// of transformer layers (embedding with the first, head with the last), "blocks" counts the embedding and the head as
// a layer each, a list gives the layers of each stage. Throws Error(bad_recipe) when it does not come out even.
std::vector<Stage> place_blocks(const Graph& graph, const PipelineRecipe& pipeline, std::int64_t pipeline_ranks);

}  // namespace llmtrain
