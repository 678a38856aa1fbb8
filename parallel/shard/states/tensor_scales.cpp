// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/tensor_scales.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/fp8/fp8.h"
#include "kernels/fp8/parts.h"
#include "kernels/reduction.h"
#include "parallel/shard/states/flat_piece.h"
#include "parallel/shard/states/storage_scales.h"

namespace llmtrain {
namespace {

using kernels::Fp8Format;

// By which μ grows to the double in auto-scaling (Peng et al., arXiv 2310.18313, section 2.1).
constexpr float doubling_steps = 1000;

// A payload of 448 is a sum that has saturated: no rank's own gradient becomes 448, because those from 432 on, which
// would be rounded to it, get the next smaller scale.
constexpr float largest_own_payload = 448.0F / 432 * 1.0001F;

float first_headroom(GradientScaling scaling, int ranks) {
  switch (scaling) {
    // With a share of the range for each rank no sum saturates; where there is room μ grows from there.
    case GradientScaling::automatic:
    case GradientScaling::pre:
      return 1 / static_cast<float>(ranks);
    case GradientScaling::inverse_root:
      return 1 / std::sqrt(static_cast<float>(ranks));
    case GradientScaling::post:
      return 1;
  }
  return 1;
}

// A second moment that fp16 would round to 0 becomes its least number, as in the optimizer's step.
at::Tensor kept_positive(const at::Tensor& scaled) {
  return at::where(scaled.gt(0), scaled.clamp_min(0x1p-24), scaled);
}

}  // namespace

TensorScales::TensorScales(const ParameterStore& store, const StateGroup& group, WeightCopy copy,
                           GradientScaling scaling, const DataParallel& ranks, const TensorParts& parts,
                           const UncastGradients& uncast, const at::Device& device)
    : store_(store),
      uncast_(uncast),
      ranks_(ranks),
      parts_(parts),
      copy_(copy),
      scaling_(scaling),
      zero_stage_(group.zero_stage),
      optimizer_states_(static_cast<std::size_t>(group.types.scaled_moments())),
      given_(store.ranges().size(), StateNumbers(1 + optimizer_states_, 0)),
      states_(store.ranges().size(), State{StateNumbers(1 + optimizer_states_, 1)}),
      counted_(store.ranges().size(), false),
      saturated_shares_(store.ranges().size(), 0) {
  const auto ranges = static_cast<std::int64_t>(store.ranges().size());
  const at::TensorOptions numbers = at::dtype(at::kFloat).device(device);
  scales_ = at::ones({ranges, static_cast<std::int64_t>(1 + optimizer_states_)}, numbers);
  headroom_ = at::full({ranges}, first_headroom(scaling, ranks.ranks()), numbers);
  weight_scales_ = at::ones({ranges}, numbers);
  std::vector<double> elements;
  for (std::size_t i = 0; i < states_.size(); ++i) elements.push_back(elements_of(i));
  elements_ = at::tensor(elements, at::kDouble).to(device);
}

const TensorScales::State& TensorScales::state(std::size_t index) const {
  if (!std::exchange(is_read_, true)) {
    // All of them in one copy.
    const at::Tensor all = at::cat({scales_, headroom_.unsqueeze(1), weight_scales_.unsqueeze(1)}, 1).cpu();
    const auto* next = all.const_data_ptr<float>();
    for (State& state : states_) {
      for (float& scale : state.scales) scale = *next++;
      state.headroom = *next++;
      state.seen = *next++;
    }
  }
  return states_[index];
}

void TensorScales::set_state(std::size_t index, const State& state) {
  given_[index] = state.scales;
  // The others follow from the number of ranks.
  if (state.headroom > 0 && scaling_ == GradientScaling::automatic) of_range(headroom_, index).fill_(state.headroom);
  is_read_ = false;
}

void TensorScales::for_pieces(FlatInterval place, const std::function<void(std::size_t, FlatInterval)>& work) const {
  const std::int64_t most = piece_elements(scales_);
  for (std::size_t i = 0; i < store_.ranges().size(); ++i) {
    const FlatRange& range = store_.ranges()[i];
    const FlatInterval here = intersection({range.begin, range.end}, place);
    for (std::int64_t begin = here.begin; begin < here.end; begin += most)
      work(i, {begin, std::min(begin + most, here.end)});
  }
}

std::vector<kernels::FlatPart> TensorScales::parts_within(FlatInterval part, FlatInterval place) const {
  std::vector<kernels::FlatPart> parts;
  for (std::size_t i = 0; i < store_.ranges().size(); ++i) {
    const FlatRange& range = store_.ranges()[i];
    const FlatInterval here = intersection({range.begin, range.end}, part);
    if (here.count() > 0)
      parts.push_back({here.begin - place.begin, here.end - place.begin, static_cast<std::int64_t>(i)});
  }
  return parts;
}

at::Tensor TensorScales::largest(const at::Tensor& values, FlatInterval place) const {
  const at::Tensor maxima = at::zeros_like(weight_scales_, values.device());
  kernels::largest_of_parts(values, parts_within(place, place), maxima);
  return numbers_at(maxima, weight_scales_.device());
}

void TensorScales::agree(const at::Tensor& maxima, bool are_sharded) const {
  if (are_sharded) ranks_.largest(maxima).wait();
  parts_.largest(maxima);
}

void TensorScales::set_weight_scales(const at::Tensor& scales, const at::Tensor& largest) {
  scales_of(0).copy_(scales);
  set_seen_scales(scales, largest);
}

void TensorScales::set_seen_scales(const at::Tensor& scales, const at::Tensor& largest) {
  is_read_ = false;
  if (copy_ == WeightCopy::none) {
    weight_scales_.copy_(scales);
    return;
  }
  // The copy is one of the rounded weights, so that those of a checkpoint give the same.
  const at::Tensor rounded = largest.mul(scales).to(at::kHalf).to(at::kFloat).div_(scales);
  weight_scales_.copy_(kernels::fp8_scale(rounded, Fp8Format::e4m3));
}

at::Tensor TensorScales::with_given(std::size_t what, const at::Tensor& scales) {
  StateNumbers given;
  for (StateNumbers& of : given_) given.push_back(std::exchange(of[what], 0));
  const at::Tensor known = at::tensor(given, at::kFloat).to(scales.device());
  return at::where(known.gt(0), known, scales);
}

void TensorScales::store(std::size_t what, const at::Tensor& values, const StateValues& payload, FlatInterval place) {
  const at::Tensor maxima = largest(values, place);
  agree(maxima, true);
  const at::Tensor scales = with_given(what, scale_for(what, payload.type(), maxima));
  scales_of(what).copy_(scales);
  if (what == 0) set_weight_scales(scales, maxima);
  is_read_ = false;
  const bool is_second_moment = what > 0 && payload.type() == at::kHalf;
  const at::Tensor there = numbers_at(scales, values.device());
  for_pieces(place, [&](std::size_t i, FlatInterval piece) {
    const at::Tensor scaled = piece_of(values, piece, place).mul(of_range(there, i));
    payload.write({piece.begin - place.begin, piece.end - place.begin},
                  [&](const at::Tensor& to) { to.copy_(is_second_moment ? kept_positive(scaled) : scaled); });
  });
}

at::Tensor TensorScales::weights(const at::Tensor& payload, FlatInterval place) const {
  at::Tensor values = at::zeros({place.count()}, payload.options().dtype(at::kFloat));
  const at::Tensor scales = numbers_at(scales_of(0), payload.device());
  for_pieces(place, [&](std::size_t i, FlatInterval piece) {
    piece_of(values, piece, place).copy_(piece_of(payload, piece, place)).div_(of_range(scales, i));
  });
  return values;
}

void TensorScales::copy_weights(const at::Tensor& payload, const at::Tensor& copy, FlatInterval place) const {
  if (copy_ == WeightCopy::none) {
    copy.copy_(payload);
    return;
  }
  const at::Tensor cast =
      copy.device() == payload.device() ? copy : at::zeros_like(copy, copy.options().device(payload.device()));
  cast_weights(payload, scales_of(0).contiguous(), cast, place);
  if (!cast.is_same(copy)) copy.copy_(cast);
}

void TensorScales::cast_weights(const at::Tensor& payload, const at::Tensor& scales, const at::Tensor& copy,
                                FlatInterval place) const {
  const at::Device there = payload.device();
  const at::Tensor own = numbers_at(scales, there), seen = numbers_at(weight_scales_, there);
  if (statistics_ != nullptr)
    for_pieces(place, [&](std::size_t i, FlatInterval piece) {
      statistics_->add(Fp8Tensors::weights, piece_of(payload, piece, place).to(at::kFloat).div_(of_range(own, i)),
                       of_range(seen, i), Fp8Format::e4m3);
    });
  kernels::cast_parts_to_fp8(payload, own, seen, parts_within(place, place), copy);
}

void TensorScales::cast_gradients(const at::Tensor& accumulated, const at::Tensor& payload) {
  const auto& ranges = store_.ranges();
  const FlatInterval all{0, accumulated.numel()};
  const at::Tensor maxima = largest(accumulated, all);
  // Payloads are summed as they are, so that all ranks of a tensor have to scale alike.
  agree(maxima, true);
  gradient_scales_ = kernels::fp8_scale(maxima.mul(largest_own_payload), Fp8Format::e4m3);
  // A power of two keeps the products exact, which μ, growing by a thousandth of a doubling per step, is not.
  gradient_scales_.mul_(kernels::power_below(headroom_));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (uncast_.have(i)) {
      payload.slice(0, ranges[i].begin, ranges[i].end).zero_();
    } else if (statistics_ != nullptr) {
      statistics_->add(Fp8Tensors::weight_gradients, accumulated.slice(0, ranges[i].begin, ranges[i].end),
                       gradient_scale(i), Fp8Format::e4m3);
    }
  }
  kernels::cast_parts_to_fp8(accumulated, {}, gradient_scales_, cast_parts(all, all), payload);
}

void TensorScales::compare_sums(const at::Tensor& sums, const at::Tensor& exact, FlatInterval place) const {
  for_pieces(place, [&](std::size_t i, FlatInterval piece) {
    if (uncast_.have(i)) return;
    statistics_->add_cast(Fp8Tensors::gradient_sums, piece_of(exact, piece, place), piece_of(sums, piece, place),
                          gradient_scale(i));
  });
}

void TensorScales::adapt(const at::Tensor& sums, FlatInterval place) {
  const at::Tensor counts = kernels::saturated_counts(sums, parts_within(place, place), weight_scales_.numel());
  if (zero_stage_ > 0) ranks_.sum(counts).wait();
  if (parts_.ranks() > 1) parts_.sum(counts);
  counts_ = counts;
  for (std::size_t i = 0; i < states_.size(); ++i) counted_[i] = !uncast_.have(i);
  if (scaling_ == GradientScaling::automatic) adapt_headroom();
}

// What the last counts are to be divided by: replicas have counted the same shards.
double TensorScales::replicas() const { return zero_stage_ > 0 ? ranks_.replicas() : 1; }

void TensorScales::adapt_headroom() {
  const at::Tensor share = counts_.to(at::kDouble).div_(replicas()).div_(elements_);
  const at::Tensor grown = headroom_.mul(std::exp2(1 / doubling_steps)).clamp_max_(1);
  const at::Tensor next = at::where(share.gt(most_saturated), headroom_.div(2), grown);
  for (std::size_t i = 0; i < states_.size(); ++i)
    if (!counted_[i]) of_range(next, i).copy_(of_range(headroom_, i));
  headroom_.copy_(next);
  is_read_ = false;
}

void TensorScales::set_counts(std::span<const double> counts) {
  saturated_ = {};
  saturated_shares_.assign(states_.size(), 0);
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (!counted_[i]) continue;
    const SaturatedSums of{elements_of(i), counts[i] / replicas()};
    saturated_.elements += of.elements;
    saturated_.saturated += of.saturated;
    saturated_shares_[i] = of.saturated / of.elements;
  }
}

double TensorScales::elements_of(std::size_t i) const {
  const FlatRange& range = store_.ranges()[i];
  return static_cast<double>((range.end - range.begin) * parts_.ranks());
}

at::Tensor TensorScales::squares(const at::Tensor& gradients, FlatInterval place, FlatInterval part) const {
  const FlatInterval here = intersection(place, part);
  const auto counts = [&](std::size_t i) { return store_.part(store_.ranges()[i].parameter).copy == 0; };
  std::vector<kernels::FlatPart> parts = cast_parts(here, place);
  std::erase_if(parts, [&](const kernels::FlatPart& of) { return !counts(static_cast<std::size_t>(of.number)); });
  at::Tensor sum = kernels::squares_of_parts(gradients, gradient_scales_, parts);
  for_pieces(here, [&](std::size_t i, FlatInterval piece) {
    if (uncast_.have(i) && counts(i)) sum.add_(kernels::sum_of_squares_there(uncast_.piece(i, piece)));
  });
  return sum;
}

std::vector<kernels::FlatPart> TensorScales::cast_parts(FlatInterval part, FlatInterval place) const {
  std::vector<kernels::FlatPart> parts = parts_within(part, place);
  std::erase_if(parts, [&](const kernels::FlatPart& of) { return uncast_.have(static_cast<std::size_t>(of.number)); });
  return parts;
}

}  // namespace llmtrain
