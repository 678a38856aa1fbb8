// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/graph/block_fields.h"
#include "core/graph/graph.h"
#include "core/model/layers/fp8_history.h"
#include "core/model/rope_tables.h"
#include "core/model/stage.h"
#include "core/optim/loss_scale.h"
#include "core/optim/spike_detector.h"
#include "core/parameters/parameter_store.h"
#include "parallel/device/state_copy.h"
#include "parallel/engine/captured_passes.h"
#include "parallel/engine/weight_stream.h"
#include "parallel/layout/layout.h"
#include "parallel/shard/rank_groups.h"
#include "parallel/shard/states/gradient_fallback.h"
#include "parallel/shard/states/sharded_parameters.h"

namespace llmtrain {

// One of the layout's parameter groups, its memory and what that holds.
struct ParameterUnit {
  StateGroup::Kind kind{};
  bool is_shared = false;  // by several ranks of the pipeline
  bool is_copy = false;    // of what another of these ranks counts
  bool is_reduced_last = false;
  std::unique_ptr<ParameterStore> store;
  std::unique_ptr<ShardedParameters> parameters;
};

// The part of the model that lives on this rank: its stages, their parameters and, for training, gradients and
// optimizer states. Stages are identified by their index in the whole model.
class LocalModel {
 public:
  // Collective over all ranks of the layout; blocks. `communicator` must outlive the model. With
  // StateContents::training the weights are initialised from the recipe's seed, else they are zero until they are
  // loaded. `make`: the blocks' modules.
  LocalModel(std::shared_ptr<const Layout> layout, Communicator& communicator, const at::Device& device,
             StateContents contents = StateContents::training, const BlockFactory& make = make_block);
  // With a part of each rank's weights in memory alone, of a layout with a stage for each block (partition_by_blocks())
  // on processors. Throws Error(bad_recipe) as streamed_weights() does, and what ScratchFile does.
  LocalModel(std::shared_ptr<const Layout> layout, Communicator& communicator, const WeightMemory& memory);
  LocalModel(const LocalModel&) = delete;
  LocalModel& operator=(const LocalModel&) = delete;

  struct StageState {
    std::vector<ParameterUnit> units;
    std::unique_ptr<StagePasses> passes;
  };

  const Layout& layout() const { return *layout_; }
  const Recipe& recipe() const { return layout_->recipe(); }
  const Graph& graph() const { return layout_->graph(); }
  const at::Device& device() const { return device_; }
  // The type of activations.
  at::ScalarType compute_type() const;
  const RankGroups& groups() const { return groups_; }
  // This rank's instructions for one step.
  const RankSchedule& schedule() const {
    return layout_->schedule().ranks[static_cast<std::size_t>(groups_.pipeline.position())];
  }

  // What the blocks of this rank's stages read of a batch.
  FieldSet fields() const;
  // The number of stages of the whole model, and the ascending indices of those that this rank holds.
  std::size_t stage_count() const { return placed().size(); }
  std::vector<std::size_t> held_stages() const;
  StageState& stage(std::size_t stage) { return stages_[stage / pipeline_ranks()]; }
  bool is_last(std::size_t stage) const { return layout_->partition().is_last(stage); }

  // Pinned memory of the host that activations have taken (memory.offload.activations), in bytes.
  std::int64_t offloaded_activation_bytes() const { return activation_offload_ ? activation_offload_->bytes() : 0; }

  // What takes gradients to the host (memory.offload.gradients); null: they stay.
  GradientEviction* gradient_eviction() { return gradient_eviction_ ? &*gradient_eviction_ : nullptr; }

  // What brings the host's optimizer states to the device (memory.policy "naive_swapping"); null: they stay.
  const SwappedUpdate* swapped_update() const { return swapped_update_ ? &*swapped_update_ : nullptr; }

  // What brings Muon's matrices from the host or the disk to the device; null: they stay.
  const MatrixCopies* matrix_copies() const { return matrix_copies_ ? &*matrix_copies_ : nullptr; }

  // The disk that has this rank's optimizer states (memory.offload.optimizer "disk"); null without.
  const StateDisk* state_disk() const { return state_disk_ ? &*state_disk_ : nullptr; }

  // What reads the weights that are not in memory; null: all are.
  WeightStream* weight_stream() { return weight_stream_ ? &*weight_stream_ : nullptr; }
  // Calls `write`, which may write to the unit's weights, also where those are in a file.
  void write_weights(const ParameterUnit& unit, const std::function<void()>& write);

  // All parameter memory of this rank.
  std::vector<const ParameterUnit*> units() const;
  // Those whose gradients are reduced at the end of a step, in an order on which ranks with copies of the same
  // parameters agree: two ranks would else wait for each other's sum of another one.
  std::vector<const ParameterUnit*> units_reduced_last() const;
  // Those whose gradients are final after the last backward and reduction of a stage of this rank.
  std::vector<const ParameterUnit*> units_final_with(std::size_t stage) const;
  // Those that the OptimizerStep of the rank updates, in the order in which it does.
  std::vector<const ParameterUnit*> units_updated_last() const;
  // Whether the unit's gradients and states count on this rank: parameters that several ranks of a pipeline hold count
  // on one of them.
  static bool counts(const ParameterUnit& unit) { return !unit.is_copy; }

  // gather() starts to gather a stage's whole weights; finish_gather() waits for them. free() releases them (ZeRO-3),
  // but for a copy of those that other stages of this rank read until they are done. What their backward reads stays
  // until release_copies(), which weights that change call for.
  void gather(std::size_t stage);
  void finish_gather(std::size_t stage);
  enum class FreeAfter { forward, backward };
  void free(std::size_t stage, FreeAfter pass);
  void release_copies();

  // Whether whole weights are present only between gather() and free() (ZeRO-3).
  bool gathers_for_use() const { return layout_->partition().zero_stage() == 3; }
  // fp16's, which the runner updates.
  LossScale& loss_scale() { return loss_scale_; }
  const LossScale& loss_scale() const { return loss_scale_; }
  // What FP8 products remember with delayed scaling, which the runner updates; null without. At the same address for
  // good.
  Fp8History* fp8_history() { return fp8_history_ ? &*fp8_history_ : nullptr; }
  const Fp8History* fp8_history() const { return fp8_history_ ? &*fp8_history_ : nullptr; }
  // Likewise where FP8 gradients may leave FP8 on their own.
  GradientFallback* gradient_fallback() { return gradient_fallback_ ? &*gradient_fallback_ : nullptr; }
  const GradientFallback* gradient_fallback() const { return gradient_fallback_ ? &*gradient_fallback_ : nullptr; }
  // Updated by the runner, too.
  SpikeDetector& spikes() { return spikes_; }
  const SpikeDetector& spikes() const { return spikes_; }
  // Lets a copy of a GPU's states go on while the model is used. What changes them calls reclaim_states() first: it
  // blocks as StateCopy::release() does.
  void lend_states(std::shared_ptr<StateCopy> copy) { lent_to_ = std::move(copy); }
  void reclaim_states() {
    if (lent_to_) std::exchange(lent_to_, nullptr)->release();
  }
  // Whether this rank can run the model on its own.
  bool holds_all_weights() const;

 private:
  std::size_t pipeline_ranks() const { return static_cast<std::size_t>(groups_.pipeline.ranks()); }
  const std::vector<Stage>& placed() const { return layout_->partition().stages; }
  LocalModel(std::shared_ptr<const Layout> layout, Communicator& communicator, const at::Device& device,
             StateContents contents, const BlockFactory& make, const WeightMemory* memory);
  void open_state_disk(const OffloadRecipe& offload);
  void order_state_disk();
  void open_weight_stream(const WeightMemory& memory);
  ParameterUnit make_unit(const StateGroup& group, StateContents contents, bool weights_are_lent);
  void add_stage(std::size_t stage, StateContents contents, const BlockFactory& make);
  CaptureSetting capture_setting(std::size_t stage);
  bool lends(const LentParameter& lent) const;

  std::shared_ptr<const Layout> layout_;
  at::Device device_;
  RankGroups groups_;
  LossScale loss_scale_;
  SpikeDetector spikes_;
  std::optional<Fp8History> fp8_history_;
  std::optional<GradientFallback> gradient_fallback_;
  std::optional<HostUpdate> host_update_;        // where the host or the disk has a GPU's optimizer states
  std::optional<SwappedUpdate> swapped_update_;  // in its place, where the device updates what the host has
  std::optional<MatrixCopies> matrix_copies_;    // where Muon's matrices come from either to the device
  std::optional<GradientEviction> gradient_eviction_;
  std::optional<StateDisk> state_disk_;      // where the disk has them
  std::optional<WeightFetch> weight_fetch_;  // where it has the shards of the weights
  std::optional<WeightStream> weight_stream_;
  std::optional<ActivationOffload> activation_offload_;
  RopeTables rope_;
  std::vector<StageState> stages_;
  ParameterStores stores_;  // of all units
  std::shared_ptr<StateCopy> lent_to_;
};

}  // namespace llmtrain
