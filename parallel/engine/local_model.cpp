// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/local_model.h"

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

ShardingOptions sharding_of(const Recipe& recipe, const at::Device& device) {
  ShardingOptions options;
  options.zero_stage = recipe.parallel.zero_stage;
  options.compute = scalar_type(recipe.precision.compute);
  options.gradients = scalar_type(recipe.precision.gradients);
  options.device = device;
  options.optimizer = recipe.training.optimizer;
  return options;
}

}  // namespace

LocalModel::LocalModel(const Recipe& recipe, const at::Device& device, const DataParallel& ranks,
                       const TensorParallel& tensor)
    : graph_(Graph::build(recipe.model)),
      device_(device),
      sharding_(sharding_of(recipe, device)),
      ranks_(ranks),
      tensor_(tensor) {
  if (recipe.model.position == Position::rope) {
    rope_ = kernels::make_rope_table(recipe.model.max_sequence_length, recipe.model.head_dim, recipe.model.rope_theta,
                                     device);
  }
  for (const Stage& placed : place_blocks(graph_, recipe.pipeline, recipe.parallel.pipeline)) add_stage(recipe, placed);
}

void LocalModel::add_stage(const Recipe& recipe, const Stage& placed) {
  StageState state;
  const ShardPlace place{.degrees = {.tensor = tensor_.ranks()}, .tensor = tensor_.position()};
  state.store = std::make_unique<ParameterStore>(graph_, parameters_of(graph_, placed.blocks), place);
  state.parameters = std::make_unique<ShardedParameters>(graph_, *state.store, sharding_, ranks_, tensor_);
  state.parameters->initialize(recipe.seed);
  ParameterStore& embedding_store = stages_.empty() ? *state.store : *stages_.front().store;
  const StageOptions options{recipe.kernels.attention, recipe.memory.recompute, rope_ ? &*rope_ : nullptr, &tensor_,
                             tensor_.rows()};
  state.stage = std::make_unique<StageModule>(graph_, placed.blocks, *state.store, embedding_store, options);
  stages_.push_back(std::move(state));
}

void LocalModel::free(std::size_t stage, FreeAfter pass) {
  const bool is_shared = graph_.model.tie_embeddings && stages_.size() > 1;
  const bool holds_embedding = stage == 0, holds_head = stage + 1 == stages_.size();
  // The head's only products with the embedding are in its forward.
  if (is_shared && holds_embedding && pass == FreeAfter::forward)
    stages_.front().store->keep(graph_.blocks.front().parameters.front());
  if (is_shared && holds_head) stages_.front().store->release_kept();
  stages_[stage].parameters->free();
}

}  // namespace llmtrain
