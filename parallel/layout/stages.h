// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/graph/graph.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The blocks of the Graph that a stage holds, in order; every block is in exactly one stage.
struct Stage {
  std::vector<std::size_t> blocks;
  std::vector<std::size_t> incoming{};  // the values that cross the cut before it (values_across())
};

// Splits the blocks over pipeline × loops stages according to `pipeline.balance`: "layers" gives every stage the same
// number of transformer layers (embedding with the first, head with the last); "blocks" the same number of blocks of
// all kinds alike, so that the first and the last stage may hold no transformer layer; a list gives the layers
// of each stage. Numbers that do not divide leave stages, and the ranks that hold them, that differ by one of them at
// most; those without embedding and head get the layers that are left over first, those with the head last. Stage i
// lives on pipeline rank i mod pipeline_ranks. Throws Error(internal_error) if the recipe violates the rules
// (core/recipe/rules/rules.h).
std::vector<Stage> place_blocks(const Graph& graph, const PipelineRecipe& pipeline, std::int64_t pipeline_ranks);

// How many of the first stages have no block with a backward.
std::int32_t frozen_stages(const Graph& graph, std::span<const Stage> stages);

// How many of the stage's blocks are transformer layers.
std::int64_t layer_count(const Graph& graph, const Stage& stage);

// The stages with blocks that read the parameter, ascending.
std::vector<std::size_t> reading_stages(const Parameter& parameter, std::span<const Stage> stages);

// A parameter that several stages of one pipeline rank read: the first of them holds it, and lends it to the others.
struct LentParameter {
  std::size_t parameter = 0;         // index into Graph::parameters
  std::vector<std::size_t> stages;   // of one rank, ascending
  bool is_read_in_backward = false;  // by the stages that it is lent to

  std::size_t holder() const { return stages.front(); }
};
std::vector<LentParameter> lent_parameters(const Graph& graph, std::span<const Stage> stages,
                                           std::int64_t pipeline_ranks);

}  // namespace llmtrain
