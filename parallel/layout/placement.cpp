// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/placement.h"

#include <algorithm>
#include <numeric>

#include "core/base/error.h"

namespace llmtrain {

namespace {

// Transformer layers of each of the pipeline × loops stages.
std::vector<std::int64_t> layers_per_stage(std::int64_t layers, const PipelineRecipe& pipeline,
                                           std::int64_t pipeline_ranks) {
  if (pipeline.balance.kind == BalanceKind::list) return pipeline.balance.layers_per_stage;
  const bool blocks = pipeline.balance.kind == BalanceKind::blocks;
  const std::int64_t stages = pipeline_ranks * pipeline.loops;
  std::vector<std::int64_t> split(static_cast<std::size_t>(stages), (layers + (blocks ? 2 : 0)) / stages);
  // The embedding takes the place of a layer in the first stage, the head in the last.
  if (blocks) {
    --split.front();
    --split.back();
  }
  return split;
}

}  // namespace

std::vector<Stage> place_blocks(const Graph& graph, const PipelineRecipe& pipeline, std::int64_t pipeline_ranks) {
  const std::vector<std::int64_t> layers_of = layers_per_stage(graph.model.layers, pipeline, pipeline_ranks);
  const auto placed = std::accumulate(layers_of.begin(), layers_of.end(), std::int64_t{0});
  if (placed != graph.model.layers || static_cast<std::int64_t>(layers_of.size()) != pipeline_ranks * pipeline.loops)
    throw Error(ExitCode::internal_error, "the stages violate the rules of recipes");
  // The stage of each layer, and of what follows the last one.
  std::vector<std::size_t> stage_of;
  for (std::size_t stage = 0; stage < layers_of.size(); ++stage)
    stage_of.insert(stage_of.end(), static_cast<std::size_t>(layers_of[stage]), stage);
  stage_of.push_back(layers_of.size() - 1);
  std::vector<Stage> stages(layers_of.size());
  std::size_t layer = 0;  // the next one
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    const bool is_layer = graph.blocks[block].kind == BlockKind::layer;
    // What comes before the first layer is on the first stage, anything else with the layer that follows it.
    stages[is_layer || layer > 0 ? stage_of[layer] : 0].blocks.push_back(block);
    if (is_layer) ++layer;
  }
  return stages;
}

std::int64_t layer_count(const Graph& graph, const Stage& stage) {
  return std::ranges::count_if(stage.blocks,
                               [&](std::size_t block) { return graph.blocks[block].kind == BlockKind::layer; });
}

}  // namespace llmtrain
