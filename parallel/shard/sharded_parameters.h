// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "core/graph/graph.h"
#include "core/optim/optimizer.h"
#include "core/parameters/parameter_store.h"
#include "core/recipe/recipe.h"
#include "parallel/layout/flat_shards.h"
#include "parallel/layout/state_groups.h"
#include "parallel/shard/data_parallel.h"
#include "parallel/shard/tensor_gradients.h"
#include "parallel/shard/tensor_parallel.h"

namespace llmtrain {

// What is kept of parameters: all that training needs, or what the modules multiply with and nothing else.
enum class StateContents { training, weights };

struct ShardingOptions {
  StateContents contents = StateContents::training;
  at::Device device = at::kCPU;
  OptimizerRecipe optimizer;
};

// The memory of one group of a stage's parameters under ZeRO (Rajbhandari et al., arXiv 1910.02054), and what passes
// between the ranks for it. Each rank owns the part of the flat memory that it updates: all of it at stage 0, its shard
// above. It keeps the whole of the weights up to stage 2 and of the gradients up to stage 1; what it does not keep is
// there from gather() to free(), and from the first gradient written to the end of the reduction. Types and stage are
// the group's; weights without a master type are their own master. The calls are the schedule's instructions: all ranks
// make them in the same order. Tensor ranks hold different parts of the model: each shards its own. With
// StateContents::weights there is nothing to reduce or to update.
class ShardedParameters {
 public:
  // `store`, which gets its memory from this, and the graph outlive it. Memory reads as zeros.
  ShardedParameters(const Graph& graph, ParameterStore& store, const StateGroup& group, const ShardingOptions& options,
                    const DataParallel& ranks, const TensorParallel& tensor);
  ShardedParameters(const ShardedParameters&) = delete;
  ShardedParameters& operator=(const ShardedParameters&) = delete;

  void initialize(std::int64_t seed);
  // After source() was set from outside: the other copies of the weights, here and on the other ranks.
  void publish();

  // Starts to bring the whole weights here, at stage 3 into memory of their own; finish_gather() waits for them. They
  // are there already up to stage 2, where gather() renews them after an update.
  void gather();
  void finish_gather();
  void free();

  // The same parameters on ranks that are not of these: `sum` adds their gradients in place, before each reduction.
  using PartnerSum = std::function<Handle(const at::Tensor&)>;
  void set_partner(PartnerSum sum) { partner_sum_ = std::move(sum); }

  // Starts to sum what was written of the gradients over all ranks, and to what was reduced in this step before;
  // finish_reduction() waits. Without a call to reduce() in a step collect() takes the gradients as this rank has them.
  // collect() then adds what other tensor ranks have of them.
  void reduce();
  void finish_reduction();
  void collect();

  // Squares of the reduced gradients of this rank's shard, without copies of what another tensor rank counts: all
  // shards of a replica, of all tensor ranks, together are those of the stage.
  double sum_of_squares() const;
  // The optimizer's step on what this rank owns. `step` counts from 1.
  void update(double learning_rate, double gradient_scale, std::int64_t step);
  // The next gradients are those of a new step.
  void start_step();

  // In elements of the store; the tensors below begin with the first one owned and may end in padding.
  FlatInterval owned() const;
  // Of what is owned an even share of those ranks that own the same.
  FlatInterval saved() const;
  // What is owned of the weights in their most exact form: the master weights, or where none are kept the weights.
  const at::Tensor& source() const { return source_; }
  // The rounded copy of what is owned; none where the modules use the source itself.
  std::optional<at::Tensor> rounded() const;
  // Of what is owned, as long as source(); none with StateContents::weights.
  std::vector<OptimizerState> optimizer_states() const;

  // What this rank keeps all the time.
  struct Bytes {
    std::int64_t weights = 0;
    std::int64_t gradients = 0;
    std::int64_t moments = 0;
  };
  Bytes bytes() const;

 private:
  bool shards_from(std::int64_t stage) const { return zero_stage_ >= stage; }
  void allocate(const StateGroup& group, const ShardingOptions& options);
  std::vector<OptimizerSegment> owned_segments() const;
  at::Tensor make_gradients() const;
  at::Tensor owned_part(const at::Tensor& whole) const;
  at::Tensor owned_weights() const { return shards_from(3) ? weights_ : owned_part(weights_); }
  at::Tensor owned_gradients() const { return shards_from(2) ? gradients_ : owned_part(gradients_); }

  const Graph& graph_;
  ParameterStore& store_;
  DataParallel ranks_;
  std::int64_t zero_stage_;
  FlatShards shards_;
  FlatInterval place_;  // what is owned, with its padding
  TensorGradients tensor_gradients_;

  at::Tensor weights_;                    // the group's weight type: all, at stage 3 what is owned
  bool has_master_ = false;               // source_ is memory of its own, else a part of weights_
  at::Tensor source_;                     // what is owned
  at::Tensor gradients_;                  // all, from stage 2 what is owned
  std::unique_ptr<Optimizer> optimizer_;  // null with StateContents::weights

  at::Tensor gathered_;             // at stage 3, from gather() to free()
  at::Tensor unreduced_, partial_;  // while a reduction is under way
  PartnerSum partner_sum_;
  Handle gather_, reduction_;
  bool is_reducing_ = false;
  bool has_reduced_ = false;  // in this step
};

}  // namespace llmtrain
