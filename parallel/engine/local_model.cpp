// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/local_model.h"

#include <utility>

#include "parallel/engine/emulated_device.h"
#include "parallel/shard/tensor_array.h"

namespace llmtrain {
namespace {

std::size_t token_embedding(const Graph& graph) {
  return graph.blocks[graph.block_of(BlockKind::embedding)].parameters.front();
}

std::optional<kernels::RopeTable> rope_table(const ModelRecipe& model, const at::Device& device) {
  if (model.position != Position::rope) return std::nullopt;
  return kernels::make_rope_table(model.max_sequence_length, model.head_dim, model.rope_theta, device);
}

}  // namespace

LocalModel::LocalModel(std::shared_ptr<const Layout> layout, Communicator& communicator, const at::Device& device,
                       StateContents contents)
    : layout_(std::move(layout)),
      device_(device),
      groups_(communicator, *layout_),
      rope_(rope_table(layout_->recipe().model, device)) {
  // In the same order on all ranks of a group: initialising a stage gathers its weights at ZeRO-1 and -2.
  for (const std::size_t stage : held_stages()) add_stage(stage, contents);
}

ParameterUnit LocalModel::make_unit(const StateGroup& group, StateContents contents) const {
  ParameterUnit unit;
  unit.kind = group.kind;
  // Units are separate flat memories, so that each is gathered, reduced and freed on its own.
  unit.store = std::make_unique<ParameterStore>(graph(), group.parameters, groups_.shard_place());
  const ShardingOptions options{contents, device_, recipe().training.optimizer};
  unit.parameters =
      std::make_unique<ShardedParameters>(graph(), *unit.store, group, options, groups_.data, groups_.tensor);
  if (contents == StateContents::training) unit.parameters->initialize(recipe().seed);
  // The first and the last stage each hold a copy of the tied embedding and add up its gradients.
  if (group.kind == StateGroup::Kind::shared_embedding)
    unit.parameters->set_partner([this](const at::Tensor& gradients) { return groups_.pipeline.sum_ends(gradients); });
  return unit;
}

void LocalModel::add_stage(std::size_t stage, StateContents contents) {
  StageState state;
  for (const StateGroup& group : layout_->partition().groups[stage]) {
    state.units.push_back(make_unit(group, contents));
    stores_.add(*state.units.back().store);
  }
  const StageOptions options{recipe().kernels.attention, recipe().memory.recompute,
                             rope_ ? &*rope_ : nullptr,  &groups_.tensor,
                             groups_.tensor.rows(),      &groups_.context};
  auto module = std::make_unique<StageModule>(graph(), placed()[stage].blocks, stores_, options);
  // No effect unless the recipe emulates a device.
  state.passes = emulate_device(std::move(module), emulated_layer(recipe()), layer_count(graph(), placed()[stage]));
  stages_.push_back(std::move(state));
}

at::ScalarType LocalModel::compute_type() const { return scalar_type(element_type(recipe().precision.compute)); }

std::vector<std::size_t> LocalModel::held_stages() const {
  std::vector<std::size_t> held;
  for (auto stage = static_cast<std::size_t>(groups_.pipeline.position()); stage < stage_count();
       stage += pipeline_ranks())
    held.push_back(stage);
  return held;
}

std::vector<const ParameterUnit*> LocalModel::units() const {
  std::vector<const ParameterUnit*> units;
  for (const StageState& stage : stages_)
    for (const ParameterUnit& unit : stage.units) units.push_back(&unit);
  return units;
}

bool LocalModel::counts(const ParameterUnit& unit) const {
  // The last rank's copy of the tied embedding would count twice in norms and checkpoints.
  return unit.kind != StateGroup::Kind::shared_embedding || groups_.pipeline.position() == 0;
}

bool LocalModel::holds_all_weights() const {
  const Mesh& mesh = layout_->mesh();
  return !gathers_for_use() && mesh.tensor * mesh.context * mesh.pipeline == 1;
}

void LocalModel::gather(std::size_t stage) {
  for (const ParameterUnit& unit : this->stage(stage).units) unit.parameters->gather();
}

void LocalModel::finish_gather(std::size_t stage) {
  for (const ParameterUnit& unit : this->stage(stage).units) unit.parameters->finish_gather();
}

void LocalModel::free(std::size_t stage, FreeAfter pass) {
  // A tied head on another stage of this rank reads the embedding's weight after the embedding's stage has been freed.
  if (graph().model.tie_embeddings && pipeline_ranks() == 1 && stages_.size() > 1) {
    const std::size_t embedding = token_embedding(graph());
    ParameterStore& store = stores_.of(embedding);
    // Only after the forward: the head computes its loss and its gradients in its own forward pass.
    if (stage == 0 && pass == FreeAfter::forward) store.keep(embedding);
    if (is_last(stage)) store.release_kept();
  }
  for (const ParameterUnit& unit : this->stage(stage).units) unit.parameters->free();
}

}  // namespace llmtrain
