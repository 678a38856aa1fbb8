// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/graph.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The blocks of the Graph that a stage holds, in order; every block is in exactly one stage.
struct Stage {
  std::vector<std::size_t> blocks;
};

// Splits the blocks over pipeline × loops stages according to `pipeline.balance`: "layers" gives every stage the same
// number of transformer layers (embedding with the first, head with the last); "blocks" counts the embedding and the
// head as one layer each, so that the first and the last stage may hold no transformer layer; a list gives the layers
// of each stage. Stage i lives on pipeline rank i mod pipeline_ranks. Throws Error(internal_error) if the recipe
// violates the rules (core/recipe/rules/rules.h).
std::vector<Stage> place_blocks(const Graph& graph, const PipelineRecipe& pipeline, std::int64_t pipeline_ranks);

// How many of the stage's blocks are transformer layers.
std::int64_t layer_count(const Graph& graph, const Stage& stage);

}  // namespace llmtrain
