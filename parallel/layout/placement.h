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
// a layer each, so that the first and the last stage may hold no transformer layer, a list gives the layers of each
// stage. Stage i lives on pipeline rank i mod pipeline_ranks. The recipe keeps the rules (core/recipe/rules/rules.h),
// or it is an Error(internal_error).
std::vector<Stage> place_blocks(const Graph& graph, const PipelineRecipe& pipeline, std::int64_t pipeline_ranks);

// How many of the stage's blocks are transformer layers.
std::int64_t layer_count(const Graph& graph, const Stage& stage);

}  // namespace llmtrain
