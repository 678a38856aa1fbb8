// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/optim/optimizer.h"
#include "core/parameters/parameter_store.h"
#include "parallel/layout/flat_shards.h"
#include "parallel/shard/rank_groups.h"

namespace llmtrain {

// How many gradients there are in FP8, and the sums among them that are beyond the format's range.
struct SaturatedSums {
  double elements = 0;
  double saturated = 0;
};

// The scales of parameters at FP8 level O1 (Peng et al., arXiv 2310.18313, section 2): weights in fp16, which are their
// own master, and gradients in E4M3. Every tensor has a power of two for each: value = payload / scale. The data and
// tensor ranks that hold it share the scales, so that payloads can be summed and any rank's part means the same.
//
// Flat tensors start at the first element of `place`, the elements of the store that they hold. Calls that are
// collective are so over the data and tensor ranks, and block.
class TensorScales {
 public:
  // The store outlives this.
  TensorScales(const ParameterStore& store, const DataParallel& ranks, const TensorParallel& tensor);

  // The scales of a parameter, by its index in the store's ranges, as checkpoints keep them.
  struct State {
    float weight = 1;
    float headroom = 1;  // of gradients: auto-scaling's factor μ, at most 1 and at first 1 ÷ data ranks
  };
  const State& state(std::size_t index) const { return states_[index]; }
  // Takes a checkpoint's; the next store_weights() keeps that weight scale.
  void set_state(std::size_t index, const State& state);
  // By the store's ranges; at the same address for good.
  std::span<const float> weight_scales() const { return weight_scales_; }

  // payload = values · scale, with scales for the values' magnitudes. `values` fp32, `payload` fp16. Collective.
  void store_weights(const at::Tensor& values, const at::Tensor& payload, FlatInterval place);
  // The weights in fp32, a copy: zero where `place` holds padding.
  at::Tensor weights(const at::Tensor& payload, FlatInterval place) const;

  // Casts whole gradients, which this rank has accumulated, to `payload` (E4M3). A tensor's scale keeps what any rank
  // has below the largest payload, times the tensor's headroom, a factor for the growth of the sum over ranks. What is
  // not finite makes the whole tensor NaN. Collective.
  void cast_gradients(const at::Tensor& accumulated, const at::Tensor& payload);
  // Adapts the headrooms to the sums: μ is halved where more than 0.001 % of a tensor's elements have saturated, and
  // otherwise doubles over 1,000 steps (section 2.1 there). `is_part`: data ranks hold different parts of the sums.
  // Collective.
  void adapt(const at::Tensor& sums, FlatInterval place, bool is_part);

  // Of the last adapt(), over all ranks that share the tensors; what several tensor ranks have counts more than once.
  const SaturatedSums& saturated() const { return saturated_; }

  // Of the gradients within `part`. What several tensor ranks have counts on the first of them.
  double sum_of_squares(const at::Tensor& gradients, FlatInterval place, FlatInterval part) const;
  // The optimizer's step on the elements of `place`, of which `gradients` are; `weights` has at least these, those of
  // `held`. Of `update` the weights, gradients and `begin` are ignored. Collective.
  struct Held {
    at::Tensor weights;
    FlatInterval held;
    bool is_part;  // other data ranks hold the rest
  };
  void update(Optimizer& optimizer, OptimizerUpdate update, const Held& of, const at::Tensor& gradients,
              FlatInterval place);

 private:
  // Calls work(index of the range, elements of the store) for pieces of the store's ranges within `place`.
  void for_pieces(FlatInterval place, const std::function<void(std::size_t, FlatInterval)>& work) const;
  at::Tensor gradient_scale(std::size_t i) const { return gradient_scales_.narrow(0, static_cast<std::int64_t>(i), 1); }
  // The largest magnitudes within `place` by range, fp32.
  at::Tensor largest(const at::Tensor& values, FlatInterval place) const;

  const ParameterStore& store_;
  DataParallel ranks_;
  TensorParallel tensor_;
  std::vector<State> states_;
  std::vector<float> weight_scales_;  // of states_, for the store's copies
  std::vector<bool> is_given_;        // by a checkpoint
  SaturatedSums saturated_;
  at::Tensor gradient_scales_;  // fp32, by range; of the current gradients
};

}  // namespace llmtrain
