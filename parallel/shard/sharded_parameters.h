// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "core/graph/graph.h"
#include "core/model/parameter_store.h"
#include "core/optim/adamw_optimizer.h"
#include "parallel/plan/flat_shards.h"
#include "parallel/shard/data_parallel.h"
#include "parallel/shard/tensor_gradients.h"
#include "parallel/shard/tensor_parallel.h"

namespace llmtrain {

// How the parameters of a stage are kept.
struct ShardingOptions {
  std::int64_t zero_stage = 0;            // 0 to 3; means nothing where one rank has all shards
  at::ScalarType compute = at::kFloat;    // what the modules multiply with
  at::ScalarType gradients = at::kFloat;  // accumulation and reduction
  at::Device device = at::kCPU;
  OptimizerRecipe optimizer;
};

// The memory of one stage's parameters under ZeRO (Rajbhandari et al., arXiv 1910.02054), and what passes between the
// ranks for it. Each rank owns the part of the flat memory that it updates: all of it at stage 0, its shard above. It
// keeps the whole of the weights up to stage 2 and of the gradients up to stage 1; what it does not keep is there from
// gather() to free(), and from the first gradient written to the end of the reduction. Master weights and moments are
// fp32; where the modules compute in fp32 the weights are their own master. The calls are the schedule's instructions:
// all ranks make them in the same order. Tensor ranks hold different parts of the model: each shards its own.
class ShardedParameters {
 public:
  // `store`, which gets its memory from this, and the graph outlive it. Memory reads as zeros.
  ShardedParameters(const Graph& graph, ParameterStore& store, const ShardingOptions& options,
                    const DataParallel& ranks, const TensorParallel& tensor = {});
  ShardedParameters(const ShardedParameters&) = delete;
  ShardedParameters& operator=(const ShardedParameters&) = delete;

  void initialize(std::int64_t seed);
  // After the owned master weights were set from outside: the other copies of them, here and on the other ranks.
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
  // AdamW on what this rank owns. `step` counts from 1.
  void update(double learning_rate, double gradient_scale, std::int64_t step);
  // The next gradients are those of a new step.
  void start_step();

  // In elements of the store; the tensors below begin with the first one owned and may end in padding.
  FlatInterval owned() const;
  // Of what is owned an even share of those ranks that own the same.
  FlatInterval saved() const;
  const at::Tensor& master() const { return master_; }
  const at::Tensor& first_moment() const { return optimizer_->first_moment(); }
  const at::Tensor& second_moment() const { return optimizer_->second_moment(); }
  // The rounded copy of what is owned; none where the modules use the master weights.
  std::optional<at::Tensor> rounded() const;

  // What this rank keeps all the time.
  struct Bytes {
    std::int64_t weights = 0;
    std::int64_t gradients = 0;
    std::int64_t moments = 0;
  };
  Bytes bytes() const;

 private:
  bool shards_from(std::int64_t stage) const { return zero_stage_ >= stage; }
  std::vector<OptimizerSegment> owned_segments(const Graph& graph) const;
  at::Tensor make_gradients() const;
  at::Tensor owned_part(const at::Tensor& whole) const;
  at::Tensor owned_gradients() const { return shards_from(2) ? gradients_ : owned_part(gradients_); }

  const Graph& graph_;
  ParameterStore& store_;
  DataParallel ranks_;
  std::int64_t zero_stage_;
  ShardingOptions options_;
  FlatShards shards_;
  FlatInterval place_;  // what is owned, with its padding
  TensorGradients tensor_gradients_;

  at::Tensor weights_;    // compute type: all, at stage 3 what is owned
  at::Tensor master_;     // fp32, what is owned; may be a part of weights_
  at::Tensor gradients_;  // all, from stage 2 what is owned
  std::unique_ptr<AdamwOptimizer> optimizer_;

  at::Tensor gathered_;             // at stage 3, from gather() to free()
  at::Tensor unreduced_, partial_;  // while a reduction is under way
  PartnerSum partner_sum_;
  Handle gather_, reduction_;
  bool is_reducing_ = false;
  bool has_reduced_ = false;  // in this step
};

}  // namespace llmtrain
