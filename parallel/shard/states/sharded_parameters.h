// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/graph/graph.h"
#include "core/optim/optimizer.h"
#include "core/parameters/parameter_store.h"
#include "core/recipe/recipe.h"
#include "parallel/layout/flat_shards.h"
#include "parallel/layout/state_groups.h"
#include "parallel/shard/rank_groups.h"
#include "parallel/shard/states/disk_states.h"
#include "parallel/shard/states/fp8_sum.h"
#include "parallel/shard/states/gradient_fallback.h"
#include "parallel/shard/states/joined_experts.h"
#include "parallel/shard/states/offload/gradient_eviction.h"
#include "parallel/shard/states/offload/host_update.h"
#include "parallel/shard/states/offload/matrix_copies.h"
#include "parallel/shard/states/offload/swapped_update.h"
#include "parallel/shard/states/shard_gather.h"
#include "parallel/shard/states/sharded_matrices.h"
#include "parallel/shard/states/state_values.h"
#include "parallel/shard/states/tensor_gradients.h"
#include "parallel/shard/states/tensor_scales.h"
#include "parallel/shard/states/uncast_gradients.h"
#include "parallel/shard/step_scalars.h"

namespace llmtrain {

// What is stored of parameters: everything that training needs, or only the weights that the modules compute with.
enum class StateContents { training, weights };

struct ShardingOptions {
  StateContents contents = StateContents::training;
  at::Device device = at::kCPU;
  OptimizerRecipe optimizer;
  at::ScalarType compute = at::kFloat;  // of modules, whose weights are stored in another type at FP8 levels
  GradientScaling gradient_scaling = GradientScaling::automatic;  // of FP8 gradients
  // With which states in small types are rounded at random; none: to nearest.
  std::optional<std::int64_t> rounding_seed = std::nullopt;
  // With FP8 gradients: have which of them have left FP8, with their products or on their own; null where none can. The
  // second takes which may follow. Both outlive the parameters.
  const Fp8History* fp8_history = nullptr;
  GradientFallback* gradient_fallback = nullptr;
  // What updates weights whose master weights and moments are in the host's memory (memory.offload.optimizer); null:
  // they are the device's. Outlives the parameters.
  HostUpdate* host_update = nullptr;
  // What updates them on the device instead, to which they come for it (memory.policy "naive_swapping"); null: they do
  // not. Outlives the parameters.
  SwappedUpdate* swapped_update = nullptr;
  // What copies Muon's matrices between the host, which has their states or the file's pieces, and the device, which
  // updates them; null: the device or the host has all. Outlives the parameters.
  MatrixCopies* matrix_copies = nullptr;
  // At stage 3, what brings shards of weights that are in the host's memory (memory.offload.weights), which a host
  // update writes; null: they are the device's. Outlives the parameters.
  WeightFetch* weight_fetch = nullptr;
  // Has master weights and moments in its file (memory.offload.optimizer "disk"); null: they are in memory. Outlives
  // the parameters.
  StateDisk* state_disk = nullptr;
  // Whether weights have no memory but what lend() brings, with StateContents::weights at stage 0 without scales.
  bool weights_are_lent = false;
  // Whether gradients have memory from their first write, or at stages 2 and 3 their first reduction, in FP8 from their
  // cast, to free_gradients() alone.
  bool frees_gradients = false;
  // What takes gradients to the host, which updates from them (memory.offload.gradients); null: they stay. Outlives the
  // parameters.
  GradientEviction* gradient_eviction = nullptr;
};

// The memory of one group of a stage's parameters under ZeRO (Rajbhandari et al., arXiv 1910.02054) and its
// collectives. Each rank owns the part of the flat memory that it updates: all of it at stage 0, its shard at higher
// stages. Whole weights are resident up to stage 2 and whole gradients up to stage 1; otherwise whole weights exist
// from gather() to free(), whole gradients from the first write to the end of the reduction. Types and stage are the
// group's; weights without a master type are their own master. The calls correspond to the schedule's instructions: all
// ranks make them in the same order. Tensor ranks hold different parts of the model and shard their own. With
// StateContents::weights, and of frozen parameters, there is nothing to reduce or update.
//
// With FP8 gradients (TensorScales) the gradients of the micro-batches are summed in the group's accumulator type and
// cast once, at the reduction, of which there is one per step, or stay in that type (UncastGradients); weights are in
// fp16 with scales, from FP8 level O2 on the optimizer's states in small types, too, and at O3 the fp16 weights are the
// master of weights in FP8.
class ShardedParameters {
 public:
  // `store`, which uses this object's memory, and the graph must outlive it. Memory is initially zero.
  ShardedParameters(const Graph& graph, ParameterStore& store, const StateGroup& group, const ShardingOptions& options,
                    const RankGroups& ranks);
  ShardedParameters(const ShardedParameters&) = delete;
  ShardedParameters& operator=(const ShardedParameters&) = delete;

  // As the modules see the parameters: the given one, or where slices of experts are joined for use another.
  ParameterStore& seen() { return joined_ ? joined_->store() : store_; }

  void initialize(std::int64_t seed);
  // Lets the weights be this memory, all elements in the group's weight type, until take_back(); in between the modules
  // may not be used. For ShardingOptions::weights_are_lent alone.
  void lend(const at::Tensor& weights) {
    weights_ = weights;
    source_ = owned_weights();
    attach(weights_);
  }
  void take_back() {
    store_.detach_weights();
    weights_ = at::empty(weights_.sizes(), weights_.options().device(at::kMeta));
    source_ = owned_weights();
  }
  // Whether weights are held in fp16 without a scale, so that none beyond its range may be written.
  bool holds_plain_fp16() const;
  // Updates the other copies of the weights, here and on the other ranks, after incoming() was written. Collective;
  // blocks.
  void publish();

  // Starts to gather the whole weights, at stage 3 into separate memory; finish_gather() waits for them. Up to stage 2
  // whole weights are resident, and gather() refreshes them after an update.
  void gather();
  void finish_gather();
  void free();

  // For parameters that ranks outside this group hold too: `sum` adds their gradients in place before each reduction.
  using PartnerSum = std::function<Handle(const at::Tensor&)>;
  void set_partner(PartnerSum sum) { partner_sum_ = std::move(sum); }

  // reduce() starts to sum the accumulated gradients over all ranks, adding to earlier reductions of this step;
  // finish_reduction() waits. collect() finishes the step's gradients: without a call to reduce() it takes this rank's
  // own, and then it adds the contributions of other tensor ranks.
  void reduce();
  void finish_reduction();
  void collect();

  // Sum of squares of the reduced gradients of this rank's shard, without elements that another tensor rank counts: the
  // sum over all ranks is that of the stage; only the first replica has any. A float64 tensor without axes, on the
  // device as far as the gradients are there: nobody waits for it.
  at::Tensor squares() const;
  // After collect(): lets the host learn with the step's scalars how many sums of FP8 gradients have saturated, for
  // scales()->saturated() and the gradient fallback. Outlives the scalars' read().
  void bring_saturated(StepScalars& scalars);
  // The optimizer's step on the owned elements. `step` counts from 1. Collective where tensors have scales or Muon
  // trains them; blocks.
  void update(double learning_rate, double gradient_scale, std::int64_t step);
  // After collect(), with ShardingOptions::gradient_eviction: starts to copy the gradients of the owned elements to the
  // host, from where update() has them. They stay until free_gradients(), before which the copy has to be done.
  void evict_gradients() {
    if (gradient_eviction_ == nullptr) return;
    gradient_eviction_->start(owned_gradients(), host_gradients_);
    is_evicted_ = true;
  }
  // After the update or the eviction, with ShardingOptions::frees_gradients.
  void free_gradients() { gradients_.reset(); }
  // Discards gradients: the next ones belong to a new step.
  void start_step();
  // What takes the casts to FP8 from here on; null: nothing.
  void set_statistics(Fp8Statistics* statistics);

  // The owned elements of the store. The tensors below start at the first owned element and may end in padding.
  FlatInterval owned() const;
  // This rank's equal share of the owned elements, among the ranks that own the same.
  FlatInterval saved() const;
  // The owned weights in their most precise form: the master weights if there are any, else the weights. Where they
  // have scales, value = element / scale. On the Meta device where they are on the disk, as source_values() has them.
  const at::Tensor& source() const { return source_; }
  StateValues source_values() const;
  // The same without scales: itself, or a copy in fp32.
  at::Tensor values() const { return scales_ ? scales_->weights(source_, place_) : source_; }
  // Where the owned weights are to be written before publish().
  StateValues incoming();
  // By the store's ranges; null without FP8.
  TensorScales* scales() { return scales_ ? &*scales_ : nullptr; }
  const TensorScales* scales() const { return scales_ ? &*scales_ : nullptr; }
  // The rounded copy of the owned weights; none if the modules use the source itself, or as many bits of it.
  std::optional<at::Tensor> rounded() const;
  // States of the owned elements, each of the length of source(); none where nothing is trained. Where they have
  // scales, value = element / scale. On the Meta device where they are on the disk, as state_values(index) has them.
  std::vector<OptimizerState> optimizer_states() const;
  StateValues state_values(std::size_t index) const;
  // Null where they are in memory.
  const DiskStates* disk_states() const { return disk_ ? &*disk_ : nullptr; }
  // Calls write(values) for the values of optimizer_states()[index]: the state's own, or without a scale memory in
  // fp32, from which it is then stored. Collective where states have scales; blocks.
  void load_state(std::size_t index, const std::function<void(const StateValues&)>& write);

  // Bytes that are resident on this rank throughout training, on its device, and those of weights, master weights and
  // moments that the host or the disk has in its place.
  struct Bytes {
    std::int64_t weights = 0;
    std::int64_t gradients = 0;
    std::int64_t moments = 0;
    std::int64_t host = 0;
    std::int64_t disk = 0;
  };
  Bytes bytes() const;

 private:
  bool shards_from(std::int64_t stage) const { return zero_stage_ >= stage; }
  // Not where the only shard is this rank's, of weights that come from the host.
  bool splits_gradients() const { return shards_from(2) && (joined_ != nullptr || shards_.ranks > 1); }
  at::Tensor make_weights(const StateGroup& group, const at::Device& device) const;
  // Whether source_ has its own memory, else it is a part of weights_.
  bool has_own_source() const { return has_master_ || (host_has_states() && weight_fetch_ == nullptr); }
  bool host_has_states() const { return host_update_ != nullptr || swapped_update_ != nullptr; }
  // Those that are copied to the device and back.
  bool host_states_are_pinned() const { return swapped_update_ != nullptr || matrix_copies_ != nullptr; }
  void update_matrices(OptimizerUpdate update);
  void allocate(const StateGroup& group, const ShardingOptions& options, const RankGroups& ranks);
  std::vector<OptimizerSegment> owned_segments() const;
  at::Tensor make_gradients();
  at::Tensor take_gradients();
  void finish_fp8_reduction();
  void keep_exact_sums(const at::Tensor& gradients);
  void attach(const at::Tensor& whole);
  void round();
  at::Tensor owned_part(const at::Tensor& whole) const;
  at::Tensor owned_weights() const { return shards_from(3) ? weights_ : owned_part(weights_); }
  at::Tensor owned_gradients() const {
    if (is_evicted_) return host_gradients_;
    return splits_gradients() ? gradients_ : owned_part(gradients_);
  }

  const Graph& graph_;
  ParameterStore& store_;
  DataParallel ranks_;
  std::unique_ptr<JoinedExperts> joined_;  // of experts whose states are cut finer than their products
  std::int64_t zero_stage_;
  FlatShards shards_;
  FlatInterval place_;  // the owned elements, including padding
  TensorGradients tensor_gradients_;
  bool is_trained_;                // has gradients and optimizer states
  bool has_master_;                // in another type than the modules' weights
  HostUpdate* host_update_;        // null where the host updates nothing
  SwappedUpdate* swapped_update_;  // null where the device updates nothing that the host has
  MatrixCopies* matrix_copies_;    // null where no matrices come to the device
  WeightFetch* weight_fetch_;      // null where it has the weights
  bool weights_are_lent_;          // and on the Meta device while they are not there
  bool frees_gradients_;
  GradientEviction* gradient_eviction_;      // null where gradients stay on the device
  std::optional<DiskStates> disk_;           // of what is on the disk
  std::optional<UncastGradients> uncast_;    // at FP8 levels
  std::optional<TensorScales> scales_;       // likewise
  GradientFallback* gradient_fallback_;      // likewise, where gradients may leave FP8
  at::ScalarType compute_ = at::kFloat;      // of modules
  at::ScalarType accumulator_ = at::kFloat;  // of gradients that become FP8

  at::Tensor weights_;   // in the group's weight type: all elements, at stage 3 the owned ones
  at::Tensor source_;    // the owned elements
  at::Tensor incoming_;  // fp32, from incoming() to publish(), where weights have scales
  at::TensorOptions gradient_options_;
  at::Tensor gradients_;       // all elements, from stage 2 on the owned ones; undefined while they are freed
  at::Tensor host_gradients_;  // pinned, of the owned elements, with gradient_eviction_
  std::unique_ptr<const WholeMatrices> matrices_;  // of a group that Muon trains
  std::unique_ptr<Optimizer> optimizer_;           // null where nothing is trained

  bool has_statistics_ = false;     // that are taken of FP8 gradients
  at::Tensor exact_;                // then the owned sums in fp32, from the cast to collect()
  ShardGather gathered_;            // at stage 3, from gather() to free()
  at::Tensor unreduced_, partial_;  // during a reduction
  PartnerSum partner_sum_;
  Handle gather_, reduction_, uncast_reduction_;
  std::optional<Fp8Sum> fp8_reduction_;
  bool is_reducing_ = false;
  bool has_reduced_ = false;  // in this step
  bool is_evicted_ = false;   // likewise: the host has the gradients
};

}  // namespace llmtrain
