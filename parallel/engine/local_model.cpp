// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/local_model.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/graph/fp8_products.h"
#include "kernels/attention/cudnn_support.h"
#include "parallel/engine/emulated_device.h"
#include "parallel/layout/executable.h"
#include "parallel/shard/tensor_array.h"

namespace llmtrain {
namespace {

// cuDNN's kernel is for training: whoever reads the weights alone may do so on another device.
AttentionKernel kernel_for(StateContents contents, AttentionKernel asked) {
  const bool trains = contents == StateContents::training;
  return asked == AttentionKernel::cudnn && !trains ? AttentionKernel::flash : asked;
}

std::optional<std::int64_t> rounding_seed(const Recipe& recipe) {
  return recipe.precision.stochastic_rounding ? std::optional(recipe.seed) : std::nullopt;
}

// Before anything is allocated. Only ranks know whether an automatic device is a GPU.
void require_executable_on(const at::Device& device, Recipe recipe) {
  recipe.cluster.device = device.is_cuda() ? DeviceKind::cuda : DeviceKind::cpu;
  const std::vector<std::string> reasons = not_executable(recipe);
  if (!reasons.empty()) throw Error(ExitCode::bad_recipe, reasons.front());
  if (recipe.kernels.cuda_graphs && !device.is_cuda())
    throw Error(ExitCode::bad_recipe, "/kernels/cuda_graphs: true needs a GPU; use false");
  if (recipe.kernels.attention != AttentionKernel::cudnn) return;
  const std::string missing = kernels::missing_for_cudnn_attention(device);
  if (!missing.empty())
    throw Error(ExitCode::bad_recipe, "/kernels/attention: \"cudnn\" " + missing + "; use \"auto\"");
}

}  // namespace

LocalModel::LocalModel(std::shared_ptr<const Layout> layout, Communicator& communicator, const at::Device& device,
                       StateContents contents, const BlockFactory& make)
    : LocalModel(std::move(layout), communicator, device, contents, make, nullptr) {}

LocalModel::LocalModel(std::shared_ptr<const Layout> layout, Communicator& communicator, const WeightMemory& memory)
    : LocalModel(std::move(layout), communicator, at::kCPU, StateContents::weights, make_block, &memory) {}

LocalModel::LocalModel(std::shared_ptr<const Layout> layout, Communicator& communicator, const at::Device& device,
                       StateContents contents, const BlockFactory& make, const WeightMemory* memory)
    : layout_(std::move(layout)),
      device_(device),
      groups_(communicator, *layout_),
      loss_scale_(layout_->recipe().precision),
      spikes_(layout_->recipe().training.spikes),
      rope_(layout_->graph(), device) {
  Recipe executed = contents == StateContents::training ? recipe() : without_training(recipe());
  executed.kernels.attention = kernel_for(contents, executed.kernels.attention);
  const OffloadRecipe offload = executed.memory.offload;
  require_executable_on(device, std::move(executed));
  if (recipe().precision.delays_scales())
    fp8_history_.emplace(fp8_products(graph()), recipe().precision.fp8_scaling,
                         recipe().precision.high_precision.fallback_steps);
  if (recipe().precision.gradients_may_fall_back())
    gradient_fallback_.emplace(fp8_matrices(graph()), recipe().precision.high_precision.fallback_steps);
  if (offload.moves_states() && !device.is_cpu()) {
    if (recipe().memory.swaps_states())
      swapped_update_.emplace(device_);
    else
      host_update_.emplace(device_);
    if (recipe().training.optimizer.name == OptimizerKind::muon)
      matrix_copies_.emplace(device_, !recipe().memory.swaps_states());
  }
  if (offload.optimizer == StatesPlace::disk) open_state_disk(offload);
  if (offload.gradients) gradient_eviction_.emplace(device_);
  if (offload.weights) weight_fetch_.emplace(device_);
  if (memory != nullptr) open_weight_stream(*memory);
  if (offload.activations) activation_offload_.emplace(device_);
  // In the same order on all ranks of a group: initialising a stage gathers its weights at ZeRO-1 and -2.
  for (const std::size_t stage : held_stages()) add_stage(stage, contents, make);
  if (state_disk_) order_state_disk();
}

// All of it at once, before anything is trained: a disk that is too small is found here.
void LocalModel::open_state_disk(const OffloadRecipe& offload) {
  state_disk_.emplace(offload.folder.value_or(recipe().log.directory),
                      state_file(layout_->partition(), groups_.pipeline.position(), device_.is_cuda()), device_);
  if (!groups_.is_first()) return;
  const std::string folder = state_disk_->file().folder().string();
  if (state_disk_->file().is_in_memory())
    log().warn("memory.offload.folder: {} is in memory, of which its files take as much as they save", folder);
  else if (!state_disk_->file().is_direct())
    log().info("memory.offload.folder: {} has no direct access (O_DIRECT): the system keeps copies in memory", folder);
}

// What the next update needs is read while one is made: of this schedule, or one of another batch, whose stages are
// updated in the same order.
void LocalModel::order_state_disk() {
  std::vector<std::size_t> numbers;
  for (const Instruction& instruction : schedule().instructions) {
    if (instruction.operation != Operation::optimizer_step) continue;
    const bool is_last = instruction.stage < 0;
    for (const ParameterUnit* unit :
         is_last ? units_updated_last() : units_final_with(static_cast<std::size_t>(instruction.stage))) {
      const DiskStates* const states = unit->parameters->disk_states();
      for (std::int64_t i = 0; states != nullptr && i < states->pieces().count(); ++i)
        numbers.push_back(states->first_number() + static_cast<std::size_t>(i));
    }
  }
  state_disk_->set_order(numbers);
}

void LocalModel::open_weight_stream(const WeightMemory& memory) {
  weight_stream_.emplace(layout_->partition(), memory);
  if (weight_stream_->file().bytes() == 0) return;
  if (weight_stream_->file().is_in_memory())
    log().warn("{}: {} is in memory, of which its files take as much as they save", WeightStream::folder_flag,
               memory.folder);
  else if (!weight_stream_->file().is_direct())
    log().info("{}: {} has no direct access (O_DIRECT): the system keeps copies of weights in memory",
               WeightStream::folder_flag, memory.folder);
}

void LocalModel::write_weights(const ParameterUnit& unit, const std::function<void()>& write) {
  if (weight_stream_ && weight_stream_->has(*unit.parameters)) return weight_stream_->write(*unit.parameters, write);
  write();
}

ParameterUnit LocalModel::make_unit(const StateGroup& group, StateContents contents, bool weights_are_lent) {
  ParameterUnit unit;
  unit.kind = group.kind;
  unit.is_shared = group.is_shared();
  unit.is_reduced_last = group.is_reduced_last(layout_->partition().shape);
  // Units are separate flat memories, so that each is gathered, reduced and freed on its own.
  unit.store = std::make_unique<ParameterStore>(graph(), group.parameters, groups_.shard_place());
  const ScheduleShape& shape = layout_->partition().shape;
  const bool leaves = !group.stays;
  const bool is_freed = shape.updates_by_stage || (shape.evicts_gradients && leaves);
  const ShardingOptions options{contents,
                                device_,
                                recipe().training.optimizer,
                                compute_type(),
                                recipe().precision.gradient_scaling,
                                rounding_seed(recipe()),
                                fp8_history(),
                                gradient_fallback(),
                                host_update_ && leaves ? &*host_update_ : nullptr,
                                swapped_update_ && leaves ? &*swapped_update_ : nullptr,
                                matrix_copies_ && leaves ? &*matrix_copies_ : nullptr,
                                weight_fetch_ && leaves ? &*weight_fetch_ : nullptr,
                                state_disk_ && leaves ? &*state_disk_ : nullptr,
                                weights_are_lent,
                                is_freed && !unit.is_reduced_last,
                                gradient_eviction_ && leaves && !unit.is_reduced_last ? &*gradient_eviction_ : nullptr};
  unit.parameters = std::make_unique<ShardedParameters>(graph(), *unit.store, group, options, groups_);
  if (contents == StateContents::training) unit.parameters->initialize(recipe().seed);
  if (group.is_shared())
    unit.parameters->set_partner([this, holders = group.holders](const at::Tensor& gradients) {
      return groups_.pipeline.sum_copies(holders, gradients);
    });
  return unit;
}

void LocalModel::add_stage(std::size_t stage, StateContents contents, const BlockFactory& make) {
  StageState state;
  for (const StateGroup& group : layout_->partition().groups[stage]) {
    const bool is_streamed = weight_stream_ && weight_stream_->streams(stage);
    state.units.push_back(make_unit(group, contents, is_streamed));
    if (is_streamed) weight_stream_->add(stage, *state.units.back().parameters);
    // Copies would count twice in norms and checkpoints.
    state.units.back().is_copy = !group.counts_on(stage);
    stores_.add(state.units.back().parameters->seen());
  }
  const StageOptions options{kernel_for(contents, recipe().kernels.attention),
                             recipe().memory.recompute,
                             recipe().memory.chunks,
                             &rope_,
                             &groups_.tensor,
                             groups_.tensor.rows(),
                             groups_.context.ranks() > 1 ? &groups_.context : nullptr,
                             groups_.mixture.ranks(),
                             multiplies_fp8(recipe().precision.fp8_level),
                             fp8_history(),
                             make,
                             activation_offload_ ? &*activation_offload_ : nullptr};
  state.passes = std::make_unique<StageModule>(graph(), placed()[stage].blocks, stores_, options);
  if (recipe().kernels.cuda_graphs && contents == StateContents::training)
    state.passes = std::make_unique<CapturedPasses>(std::move(state.passes), capture_setting(stage));
  state.passes =
      on_emulated_device(std::move(state.passes), emulated_passes(recipe(), graph(), placed()[stage].blocks));
  stages_.push_back(std::move(state));
}

CaptureSetting LocalModel::capture_setting(std::size_t stage) {
  const auto stores = [this] {
    std::vector<ParameterStore*> all;
    for (const ParameterUnit* unit : units()) all.push_back(&unit->parameters->seen());
    return all;
  };
  const auto index = static_cast<std::int32_t>(stage);
  return {device_, activation_slots(schedule(), index), stores, layout_->partition().shape.has_backward(index)};
}

at::ScalarType LocalModel::compute_type() const { return scalar_type(element_type(recipe().precision.compute)); }

FieldSet LocalModel::fields() const {
  std::vector<std::size_t> blocks;
  for (const std::size_t stage : held_stages())
    blocks.insert(blocks.end(), placed()[stage].blocks.begin(), placed()[stage].blocks.end());
  return fields_read(graph(), blocks);
}

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

std::vector<const ParameterUnit*> LocalModel::units_reduced_last() const {
  std::vector<const ParameterUnit*> last = units();
  std::erase_if(last, [](const ParameterUnit* unit) { return !unit->is_reduced_last; });
  std::ranges::sort(last, {}, [](const ParameterUnit* unit) { return unit->store->ranges().front().parameter; });
  return last;
}

std::vector<const ParameterUnit*> LocalModel::units_final_with(std::size_t stage) const {
  std::vector<const ParameterUnit*> units;
  // What ranks of a pipeline share is reduced at the end alone.
  for (const ParameterUnit& unit : stages_[stage / pipeline_ranks()].units)
    if (!unit.is_reduced_last) units.push_back(&unit);
  return units;
}

std::vector<const ParameterUnit*> LocalModel::units_updated_last() const {
  return layout_->partition().shape.updates_by_stage ? units_reduced_last() : units();
}

bool LocalModel::holds_all_weights() const {
  const Mesh& mesh = layout_->mesh();
  return !gathers_for_use() && mesh.tensor * mesh.context * mesh.pipeline * mesh.expert * mesh.expert_tensor == 1;
}

void LocalModel::gather(std::size_t stage) {
  for (const ParameterUnit& unit : this->stage(stage).units) unit.parameters->gather();
}

void LocalModel::finish_gather(std::size_t stage) {
  for (const ParameterUnit& unit : this->stage(stage).units) unit.parameters->finish_gather();
}

void LocalModel::free(std::size_t stage, FreeAfter pass) {
  // Other stages of this rank read what this one lends after it has been freed.
  for (const LentParameter& lent : layout_->partition().lent) {
    if (!lends(lent)) continue;
    const std::size_t first = lent.parameter;
    ParameterStore& store = stores_.of(first);
    const bool is_read_again = pass == FreeAfter::forward || lent.is_read_in_backward;
    if (stage == lent.holder() && is_read_again) store.keep(first, graph().last_of_product(first));
    if (stage == lent.stages.back() && !lent.is_read_in_backward) store.release(first);
  }
  for (const ParameterUnit& unit : this->stage(stage).units) unit.parameters->free();
}

void LocalModel::release_copies() {
  for (const LentParameter& lent : layout_->partition().lent)
    if (lends(lent)) stores_.of(lent.parameter).release(lent.parameter);
}

// One copy of those that are multiplied as one, by the first of them.
bool LocalModel::lends(const LentParameter& lent) const {
  return layout_->partition().rank_of(lent.holder()) == static_cast<std::size_t>(groups_.pipeline.position()) &&
         graph().parameters[lent.parameter].joined != Joined::product;
}

}  // namespace llmtrain
