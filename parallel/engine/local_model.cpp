// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/local_model.h"

#include <utility>

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

std::size_t token_embedding(const Graph& graph) { return graph.blocks.front().parameters.front(); }

}  // namespace

LocalModel::LocalModel(const Recipe& recipe, const at::Device& device, const RankGroups& groups)
    : graph_(Graph::build(recipe.model)),
      device_(device),
      sharding_(sharding_of(recipe, device)),
      groups_(groups),
      placed_(place_blocks(graph_, recipe.pipeline, groups.pipeline.ranks())) {
  if (recipe.model.position == Position::rope) {
    rope_ = kernels::make_rope_table(recipe.model.max_sequence_length, recipe.model.head_dim, recipe.model.rope_theta,
                                     device);
  }
  auto parameters = unit_parameters();
  auto next = parameters.begin();
  if (shares_embedding_here()) {
    shared_embedding_ = make_unit(*next++, recipe.seed);
    shared_embedding_->parameters->set_partner(
        [this](const at::Tensor& gradients) { return groups_.pipeline.sum_ends(gradients); });
  }
  for (auto stage = static_cast<std::size_t>(groups_.pipeline.position()); stage < placed_.size();
       stage += pipeline_ranks())
    add_stage(recipe, make_unit(*next++, recipe.seed), placed_[stage]);
}

bool LocalModel::shares_embedding_here() const {
  const int ranks = groups_.pipeline.ranks(), position = groups_.pipeline.position();
  const bool is_end = position == 0 || position + 1 == ranks;
  return graph_.model.tie_embeddings && ranks > 1 && is_end;
}

std::vector<std::vector<std::size_t>> LocalModel::unit_parameters() const {
  std::vector<std::vector<std::size_t>> units;
  const bool shares = shares_embedding_here();
  if (shares) units.push_back({token_embedding(graph_)});
  for (auto stage = static_cast<std::size_t>(groups_.pipeline.position()); stage < placed_.size();
       stage += pipeline_ranks()) {
    units.push_back(parameters_of(graph_, placed_[stage].blocks));
    if (shares) std::erase(units.back(), token_embedding(graph_));
  }
  return units;
}

ParameterUnit LocalModel::make_unit(const std::vector<std::size_t>& parameters, std::int64_t seed) const {
  ParameterUnit unit;
  unit.store = std::make_unique<ParameterStore>(graph_, parameters, groups_.shard_place());
  unit.parameters = std::make_unique<ShardedParameters>(graph_, *unit.store, sharding_, groups_.data, groups_.tensor);
  unit.parameters->initialize(seed);
  return unit;
}

void LocalModel::add_stage(const Recipe& recipe, ParameterUnit unit, const Stage& placed) {
  StageState state{std::move(unit), nullptr};
  const StageOptions options{recipe.kernels.attention, recipe.memory.recompute, rope_ ? &*rope_ : nullptr,
                             &groups_.tensor,          groups_.tensor.rows(),   &groups_.context};
  state.module =
      std::make_unique<StageModule>(graph_, placed.blocks, *state.store, embedding_store(*state.store), options);
  stages_.push_back(std::move(state));
}

// Where the token embedding is; `own` is the store of the stage that is being added.
ParameterStore& LocalModel::embedding_store(ParameterStore& own) {
  if (shared_embedding_) return *shared_embedding_->store;
  return stages_.empty() ? own : *stages_.front().store;
}

std::vector<std::size_t> LocalModel::held_stages() const {
  std::vector<std::size_t> held;
  for (std::size_t i = 0; i < stages_.size(); ++i)
    held.push_back(i * pipeline_ranks() + static_cast<std::size_t>(groups_.pipeline.position()));
  return held;
}

std::vector<const ParameterUnit*> LocalModel::units() const {
  std::vector<const ParameterUnit*> units;
  if (shared_embedding_) units.push_back(&*shared_embedding_);
  for (const StageState& stage : stages_) units.push_back(&stage);
  return units;
}

bool LocalModel::counts(const ParameterUnit& unit) const {
  return &unit != shared_embedding() || groups_.pipeline.position() == 0;
}

// The stages of the shared embedding: of one rank it is the first or the last one.
bool LocalModel::shares_embedding(std::size_t stage) const {
  return shared_embedding_ && (stage == 0 || is_last(stage));
}

void LocalModel::gather(std::size_t stage) {
  if (shares_embedding(stage)) shared_embedding_->parameters->gather();
  this->stage(stage).parameters->gather();
}

void LocalModel::finish_gather(std::size_t stage) {
  if (shares_embedding(stage)) shared_embedding_->parameters->finish_gather();
  this->stage(stage).parameters->finish_gather();
}

void LocalModel::free(std::size_t stage, FreeAfter pass) {
  const bool is_shared_here = graph_.model.tie_embeddings && pipeline_ranks() == 1 && stages_.size() > 1;
  // The head's only products with the embedding are in its forward.
  if (is_shared_here && stage == 0 && pass == FreeAfter::forward) stages_.front().store->keep(token_embedding(graph_));
  if (is_shared_here && is_last(stage)) stages_.front().store->release_kept();
  if (shares_embedding(stage)) shared_embedding_->parameters->free();
  this->stage(stage).parameters->free();
}

}  // namespace llmtrain
