// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "core/model/layers/fp8_statistics.h"
#include "core/optim/optimizer.h"
#include "core/parameters/parameter_store.h"
#include "kernels/cuda/fp8/flat_part.h"
#include "parallel/layout/flat_shards.h"
#include "parallel/layout/state_groups.h"
#include "parallel/shard/rank_groups.h"
#include "parallel/shard/states/state_values.h"
#include "parallel/shard/states/uncast_gradients.h"

namespace llmtrain {

// How many gradients there are in FP8, and the sums among them that are beyond the format's range.
struct SaturatedSums {
  double elements = 0;
  double saturated = 0;
};

// A number of the weights, and after it one of each of an optimizer's states, in the order of Optimizer::states().
using StateNumbers = std::vector<float>;

// The scales of parameters at the FP8 levels that store FP8 (Peng et al., arXiv 2310.18313, section 2): weights in
// fp16, which are the most precise there are, gradients in E4M3, from O2 on an optimizer's states in small types, and
// at O3 a copy of the weights in E4M3 for the modules. Every tensor has a power of two for each: value = payload /
// scale. All ranks that hold it or a part of it share the scales, so that payloads can be summed and any rank's part
// means the same. Scales are fp32 on the parameters' device: a step on a GPU reads none of them on the host, which sees
// them where a checkpoint is written.
//
// Flat tensors start at the first element of `place`, the elements of the store that they hold. Calls that are
// collective are so over the ranks that hold the same and those that hold the parts, and block.
class TensorScales {
 public:
  // The group must be an FP8 one; `copy`: what the modules see of the weights. The store outlives this, and so does
  // `uncast`, which has the gradients that are not cast: their payloads are 0.
  enum class WeightCopy { none, e4m3 };
  TensorScales(const ParameterStore& store, const StateGroup& group, WeightCopy copy, GradientScaling scaling,
               const DataParallel& ranks, const TensorParts& parts, const UncastGradients& uncast,
               const at::Device& device);

  // From now on updates round what they store at random: by the store's ranges, with tensors' own numbers as keys.
  void round_at_random(std::vector<kernels::StochasticRounding> roundings) { roundings_ = std::move(roundings); }

  // The scales of a parameter, by its index in the store's ranges, as checkpoints keep them.
  struct State {
    StateNumbers scales;  // of the weights in their most precise form, and of the optimizer's states
    float headroom = 1;   // of gradients: at most 1; auto-scaling's factor μ is at first 1 ÷ data ranks
    float seen = 1;       // of the weights that modules see, which may be the copy's
  };
  // At the same address for good; follows the steps when it is asked for. On a GPU the host waits for the current
  // stream then, once after each step.
  const State& state(std::size_t index) const;
  // How many states of the optimizer have scales: those that are not in fp32.
  std::size_t optimizer_states() const { return optimizer_states_; }
  // Takes a checkpoint's; the next store() of each keeps that scale, unless it is 0, which a checkpoint does not have.
  void set_state(std::size_t index, const State& state);
  // With which modules see the weights, fp32 by the store's ranges; they change in place.
  const at::Tensor& weight_scales() const { return weight_scales_; }

  // payload = values · scale, with scales for the values' magnitudes: `what` is 0 for weights, else 1 + the index of an
  // optimizer's state. `values` fp32, on the parameters' device or the host. Collective.
  void store(std::size_t what, const at::Tensor& values, const StateValues& payload, FlatInterval place);
  // The weights in fp32, a copy: zero where `place` holds padding.
  at::Tensor weights(const at::Tensor& payload, FlatInterval place) const;
  // Makes the copy of stored weights that modules see: in E4M3, with scales for their magnitudes, or bit by bit. The
  // weights may be the host's, and the copy the device's.
  void copy_weights(const at::Tensor& payload, const at::Tensor& copy, FlatInterval place) const;

  // Casts whole gradients, which this rank has accumulated, to `payload` (E4M3). A tensor's scale keeps what any rank
  // has below the largest payload, times the tensor's headroom, a factor for the growth of the sum over ranks. What is
  // not finite makes the whole tensor NaN. Collective.
  void cast_gradients(const at::Tensor& accumulated, const at::Tensor& payload);
  // Where the casts of gradients and weights are also recorded; null: nowhere. It outlives the next casts.
  void set_statistics(Fp8Statistics* statistics) { statistics_ = statistics; }
  // Records how the sums represent `exact`, the same ones in fp32 before any rounding.
  void compare_sums(const at::Tensor& sums, const at::Tensor& exact, FlatInterval place) const;
  // Counts the sums that have saturated. With auto-scaling adapts the headrooms to them: μ is halved where more than
  // `most_saturated` of a tensor's elements have saturated, and otherwise doubles over 1,000 steps (section 2.1 there).
  // Collective.
  void adapt(const at::Tensor& sums, FlatInterval place);

  // What the last adapt() has counted, fp32 by the store's ranges, on the device: nobody waits for it. Once after each;
  // the host learns of it with set_counts(), in float64.
  at::Tensor take_counts() { return std::exchange(counts_, {}); }
  void set_counts(std::span<const double> counts);
  // From the counts that have been set, over all ranks that share the tensors; heads that several tensor ranks have
  // count on each.
  const SaturatedSums& saturated() const { return saturated_; }
  // The same of a tensor, by its index in the store's ranges: the share of its elements, 0 where they are not FP8.
  double saturated_share(std::size_t index) const { return saturated_shares_[index]; }

  // The sum of squares of the gradients within `part`. What several tensor ranks have counts on the first of them. A
  // float64 tensor without axes, on the device of the gradients: nobody waits for it.
  at::Tensor squares(const at::Tensor& gradients, FlatInterval place, FlatInterval part) const;
  // Makes a pass of an update by a call for its elements, or for one piece of them after the other, with tensors that
  // are where the states are.
  using MakePass = std::function<void(UpdatePass pass, const PieceUpdate& make)>;
  // All weights that modules of this rank see before a step, as far as it has them, in the weights' own type.
  struct Held {
    at::Tensor weights;
    FlatInterval held;
  };
  // The optimizer's step on the elements of `place`, those of `update`: its weights are on the Meta device where pieces
  // of the host alone have them, and those of pieces are `there`. Its compute weights, if any, become those of
  // copy_weights(). Collective.
  void update(Optimizer& optimizer, const OptimizerUpdate& update, const Held& seen, FlatInterval place,
              const at::Device& there, const MakePass& make_pass);

 private:
  // Calls work(index of the range, elements of the store) for pieces of the store's ranges within `place`.
  void for_pieces(FlatInterval place, const std::function<void(std::size_t, FlatInterval)>& work) const;
  at::Tensor gradient_scale(std::size_t i) const { return of_range(gradient_scales_, i); }
  // A view of the number of range i, where there is one for each range.
  static at::Tensor of_range(const at::Tensor& numbers, std::size_t i) {
    return numbers.narrow(0, static_cast<std::int64_t>(i), 1);
  }
  at::Tensor scales_of(std::size_t what) const { return scales_.select(1, static_cast<std::int64_t>(what)); }
  // The ranges as far as they are within `part`, in flat tensors of `place`; a number is the range's index.
  std::vector<kernels::FlatPart> parts_within(FlatInterval part, FlatInterval place) const;
  // The same of those whose gradients are cast.
  std::vector<kernels::FlatPart> cast_parts(FlatInterval part, FlatInterval place) const;
  // The largest magnitudes within `place` by range, fp32.
  at::Tensor largest(const at::Tensor& values, FlatInterval place) const;
  // In place the largest over the ranks that hold parts of the tensors, and with `are_sharded` over the data ranks.
  void agree(const at::Tensor& maxima, bool are_sharded) const;
  // Takes the scales of weights by range; `largest`: their largest magnitudes before they are rounded with them.
  void set_weight_scales(const at::Tensor& scales, const at::Tensor& largest);
  // Those of the weights that modules see alone.
  void set_seen_scales(const at::Tensor& scales, const at::Tensor& largest);
  // `scales`, but where a checkpoint has given one of `what` that.
  at::Tensor with_given(std::size_t what, const at::Tensor& scales);
  double replicas() const;
  void adapt_headroom();
  // How many the tensor of range i has on all ranks that hold parts of it.
  double elements_of(std::size_t i) const;
  // In tensor_scales_update.cpp:

  // What an update needs of all ranges, where it is made.
  struct UpdateNumbers {
    at::Tensor scales, gradient_scales;
    at::Tensor numbers;  // ScaledUpdate::numbers
  };
  // What the optimizer updates of a piece of range i; `of` are the elements of `place`.
  ScaledUpdate update_of(const OptimizerUpdate& of, FlatInterval place, std::size_t i, FlatInterval piece,
                         const UpdateNumbers& numbers) const;
  // Calls work(updates) with those of the ranges' elements within `place`, of as many tensors at once as there are but
  // for gradients that have to be copied.
  void for_updates(const OptimizerUpdate& of, FlatInterval place, const UpdateNumbers& numbers,
                   const std::function<void(std::span<const ScaledUpdate>)>& work) const;
  // The pass that stores what the update makes of the elements of `place` and the weights that modules see.
  PieceUpdate storing(Optimizer& optimizer, FlatInterval place, const UpdateNumbers& numbers) const;
  // Takes one pass of an optimizer that keeps its states in fp32: weights get the scale of their magnitudes before it.
  void update_weights(Optimizer& optimizer, const Held& seen, FlatInterval place, const at::Device& there,
                      const MakePass& make_pass);
  // Takes the optimizer's two passes over states in small types.
  void update_scaled(Optimizer& optimizer, const OptimizerUpdate& update, FlatInterval place, const at::Device& there,
                     const MakePass& make_pass);
  // The E4M3 copy of weights with these scales.
  void cast_weights(const at::Tensor& payload, const at::Tensor& scales, const at::Tensor& copy,
                    FlatInterval place) const;

  const ParameterStore& store_;
  const UncastGradients& uncast_;
  DataParallel ranks_;
  TensorParts parts_;
  WeightCopy copy_;
  GradientScaling scaling_;
  std::int64_t zero_stage_;
  std::size_t optimizer_states_;
  std::vector<kernels::StochasticRounding> roundings_;  // by range; empty: to nearest
  std::vector<StateNumbers> given_;                     // scales of a checkpoint
  // On the device, by range: [ranges, numbers] of State::scales, and [ranges].
  at::Tensor scales_, headroom_, weight_scales_;
  at::Tensor elements_;  // float64: of the tensors on all ranks
  // What the host knows of them.
  mutable std::vector<State> states_;
  mutable bool is_read_ = false;
  std::vector<bool> counted_;  // in the last adapt(): which were in FP8
  at::Tensor counts_;          // of the last adapt(); undefined once they are taken
  SaturatedSums saturated_;
  std::vector<double> saturated_shares_;
  Fp8Statistics* statistics_ = nullptr;
  at::Tensor gradient_scales_;  // fp32, by range; of the current gradients
};

}  // namespace llmtrain
