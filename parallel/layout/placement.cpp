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
  const auto layers = static_cast<std::int64_t>(graph.blocks.size()) - 2;
  std::vector<std::int64_t> blocks_per_stage = layers_per_stage(layers, pipeline, pipeline_ranks);
  const auto placed = std::accumulate(blocks_per_stage.begin(), blocks_per_stage.end(), std::int64_t{0});
  // Checked again, because a wrong placement would silently train another model.
  if (placed != layers || static_cast<std::int64_t>(blocks_per_stage.size()) != pipeline_ranks * pipeline.loops)
    throw Error(ExitCode::internal_error, "the requested stages violate the rules of recipes");
  // From layers to blocks: the embedding comes with the first stage, the head with the last.
  ++blocks_per_stage.front();
  ++blocks_per_stage.back();
  std::vector<Stage> stages;
  std::size_t next = 0;
  for (const std::int64_t count : blocks_per_stage) {
    Stage& stage = stages.emplace_back();
    stage.blocks.resize(static_cast<std::size_t>(count));
    std::iota(stage.blocks.begin(), stage.blocks.end(), next);
    next += stage.blocks.size();
  }
  return stages;
}

std::int64_t layer_count(const Graph& graph, const Stage& stage) {
  return std::ranges::count_if(stage.blocks,
                               [&](std::size_t block) { return graph.blocks[block].kind == BlockKind::layer; });
}

}  // namespace llmtrain
