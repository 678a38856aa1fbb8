// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/local_model.h"

#include "core/model/flat_memory.h"
#include "core/model/initialization.h"

namespace llmtrain {
namespace {

at::ScalarType scalar_type(DataType type) {
  switch (type) {
    case DataType::fp32:
      return at::kFloat;
    case DataType::bf16:
      return at::kBFloat16;
    default:
      return at::kHalf;
  }
}

std::vector<OptimizerSegment> segments_of(const Graph& graph, const ParameterStore& store) {
  std::vector<OptimizerSegment> segments;
  for (const FlatRange& range : store.ranges())
    segments.push_back({range.begin, range.end, graph.parameters[range.parameter].decays});
  return segments;
}

std::unique_ptr<AdamwOptimizer> make_optimizer(const OptimizerRecipe& recipe, const Graph& graph,
                                               const ParameterStore& store) {
  const at::Device device = store.master().device();
  return std::make_unique<AdamwOptimizer>(recipe, segments_of(graph, store),
                                          make_flat_memory(store.elements(), at::kFloat, device),
                                          make_flat_memory(store.elements(), at::kFloat, device));
}

}  // namespace

LocalModel::LocalModel(const Recipe& recipe, const at::Device& device)
    : graph_(Graph::build(recipe.model)),
      device_(device),
      types_{scalar_type(recipe.precision.compute), scalar_type(recipe.precision.gradients)} {
  if (recipe.model.position == Position::rope) {
    rope_ = kernels::make_rope_table(recipe.model.max_sequence_length, recipe.model.head_dim, recipe.model.rope_theta,
                                     device);
  }
  for (const Stage& placed : place_blocks(graph_, recipe.pipeline, recipe.parallel.pipeline)) add_stage(recipe, placed);
}

void LocalModel::add_stage(const Recipe& recipe, const Stage& placed) {
  StageState state;
  state.store = std::make_unique<ParameterStore>(graph_, parameters_of(graph_, placed.blocks), types_, device_);
  initialize_weights(*state.store, graph_, recipe.seed);
  state.optimizer = make_optimizer(recipe.training.optimizer, graph_, *state.store);
  ParameterStore& embedding_store = stages_.empty() ? *state.store : *stages_.front().store;
  const StageOptions options{recipe.kernels.attention, recipe.memory.recompute, rope_ ? &*rope_ : nullptr};
  state.stage = std::make_unique<StageModule>(graph_, placed.blocks, *state.store, embedding_store, options);
  stages_.push_back(std::move(state));
}

}  // namespace llmtrain
