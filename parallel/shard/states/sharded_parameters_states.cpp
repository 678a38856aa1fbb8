// SPDX-License-Identifier: Apache-2.0
// The states of ShardedParameters, wherever they are: what is loaded into them, and their update.
#include <memory>
#include <utility>
#include <vector>

#include "core/parameters/flat_memory.h"
#include "parallel/shard/states/offload/matrix_states.h"
#include "parallel/shard/states/sharded_parameters.h"

namespace llmtrain {

StateValues ShardedParameters::source_values() const {
  return disk_ && has_own_source() ? StateValues(source_, *disk_, 0) : StateValues(source_);
}

StateValues ShardedParameters::state_values(std::size_t index) const {
  const at::Tensor values = optimizer_states().at(index).values;
  // Behind the weights, where these are in the file, too.
  return disk_ ? StateValues(values, *disk_, index + (has_own_source() ? 1 : 0)) : StateValues(values);
}

StateValues ShardedParameters::incoming() {
  if (!scales_) return source_values();
  if (!incoming_.defined()) incoming_ = make_flat_memory(place_.count(), at::kFloat, values_device(source_));
  return StateValues(incoming_);
}

void ShardedParameters::publish() {
  if (incoming_.defined()) scales_->store(0, std::exchange(incoming_, {}), source_values(), place_);
  round();
  if (zero_stage_ == 0 || shards_from(3)) return;
  gather();
  finish_gather();
}

// After an update its own pass has done so.
void ShardedParameters::round() {
  if (!has_own_source()) return;
  source_values().for_pieces([this](const FlatInterval& piece, const at::Tensor& values) {
    const at::Tensor weights = owned_weights().slice(0, piece.begin, piece.end);
    if (scales_)
      scales_->copy_weights(values, weights, {place_.begin + piece.begin, place_.begin + piece.end});
    else
      weights.copy_(values);
  });
}

void ShardedParameters::load_state(std::size_t index, const std::function<void(const StateValues&)>& write) {
  if (!scales_ || scales_->optimizer_states() == 0) return write(state_values(index));
  // As numbers first, because the checkpoint may be of a level with other scales or none.
  const at::Tensor values =
      make_flat_memory(place_.count(), at::kFloat, values_device(optimizer_states().at(index).values));
  write(StateValues(values));
  scales_->store(1 + index, values, state_values(index), place_);
}

// Their weights and states come to where the model computes.
void ShardedParameters::update_matrices(OptimizerUpdate update) {
  std::unique_ptr<ElsewhereStates> states;
  if (disk_) {
    states = std::make_unique<DiskMatrixStates>(*disk_, source_, owned().count(), matrix_copies_);
  } else {
    states = std::make_unique<HostMatrixStates>(std::vector<at::Tensor>{source_, optimizer_states().front().values},
                                                *matrix_copies_);
  }
  update.elsewhere = states.get();
  if (matrix_copies_ != nullptr) matrix_copies_->begin();
  optimizer_->update(update);
  if (matrix_copies_ != nullptr) matrix_copies_->finish();
}

void ShardedParameters::update(double learning_rate, double gradient_scale, std::int64_t step) {
  if (!is_trained_) return;
  OptimizerUpdate update{source_, owned_gradients(), std::nullopt, learning_rate, gradient_scale, step};
  if (has_own_source()) update.compute_weights = owned_weights();
  DiskStates* const disk = disk_ ? &*disk_ : nullptr;
  if (!scales_) {
    if (matrices_ && (matrix_copies_ != nullptr || disk != nullptr)) return update_matrices(std::move(update));
    if (host_update_ != nullptr) return host_update_->run(*optimizer_, update, disk);
    if (swapped_update_ != nullptr)
      return swapped_update_->run(*optimizer_, update, UpdatePass::update,
                                  [this](const OptimizerUpdate& of_piece) { optimizer_->update(of_piece); });
    if (disk == nullptr) return optimizer_->update(update);
    return update_from_disk(update, *disk, UpdatePass::update,
                            [this](const OptimizerUpdate& of_piece) { optimizer_->update(of_piece); });
  }
  const auto make_pass = [&](UpdatePass pass, const PieceUpdate& make) {
    if (host_update_ != nullptr) return host_update_->run(update, disk, pass, make);
    if (swapped_update_ != nullptr) return swapped_update_->run(*optimizer_, update, pass, make);
    if (disk != nullptr) return update_from_disk(update, *disk, pass, make);
    make(update);
  };
  // Where every rank has all weights data ranks need not agree on their maxima.
  const TensorScales::Held seen = shards_from(3) ? TensorScales::Held{owned_weights(), place_}
                                                 : TensorScales::Held{weights_, {0, shards_.elements}};
  const at::Device there = swapped_update_ != nullptr ? gradient_options_.device() : values_device(source_);
  scales_->update(*optimizer_, update, seen, place_, there, make_pass);
  uncast_->drop();
}

}  // namespace llmtrain
