// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/tensor_scales.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/fp8.h"
#include "kernels/reduction.h"
#include "parallel/shard/states/flat_piece.h"

namespace llmtrain {
namespace {

using kernels::Fp8Format;

// Bounds the fp32 copies of weights and gradients that an update works on, 4 MB each.
constexpr std::int64_t piece_elements = std::int64_t{1} << 20;

// Of auto-scaling (Peng et al., arXiv 2310.18313, section 2.1).
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

// Of the least power of two that is above x, which is positive.
int exponent_above(float x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return exponent;
}

// The largest power of two that is at most x, which is positive. Products with it are exact.
float power_below(float x) { return std::ldexp(1.0F, exponent_above(x) - 1); }

// The scale that places a largest magnitude between 2^(top − 1) and 2^top, within bounds that leave the payload's
// smallest number in fp32's range. What is not finite keeps a scale, and stays visible in the payload.
float scale_below(int top, float largest, int most) {
  if (!(largest > 0) || !std::isfinite(largest)) return 1;
  return std::ldexp(1.0F, std::clamp(top - exponent_above(largest), -100, most));
}

// Places the largest weight of magnitude `largest` at 2¹¹ to 2¹²: one step may multiply it by 16 before it leaves fp16,
// and a weight 2²⁵ times smaller is still a normal number. At most 2¹⁴, with which a step may take weights near zero to
// 4 and those from 2⁻²⁸ on are normal.
float weight_scale(float largest) { return scale_below(12, largest, 14); }

// Of what is stored as `type`: weights in fp16 (`what` 0) or an optimizer's state, which in fp16 takes the range up to
// 2¹⁵, because second moments span twice as many powers of two as gradients.
float scale_for(std::size_t what, at::ScalarType type, float largest) {
  if (type == at::kFloat8_e4m3fn) return kernels::fp8_scale(at::full({1}, largest), Fp8Format::e4m3).item<float>();
  return what == 0 ? weight_scale(largest) : scale_below(15, largest, 100);
}

// A second moment that fp16 would round to 0 becomes its least number, as in the optimizer's step.
at::Tensor kept_positive(const at::Tensor& scaled) {
  return at::where(scaled.gt(0), scaled.clamp_min(0x1p-24), scaled);
}

// In the order of StateNumbers.
std::vector<at::ScalarType> types_of(const at::Tensor& weights, const Optimizer& optimizer) {
  std::vector<at::ScalarType> types{weights.scalar_type()};
  for (const OptimizerState& state : optimizer.states()) types.push_back(state.values.scalar_type());
  return types;
}

}  // namespace

TensorScales::TensorScales(const ParameterStore& store, const StateGroup& group, WeightCopy copy,
                           GradientScaling scaling, const DataParallel& ranks, const TensorParts& parts,
                           const WideGradients& wide)
    : store_(store),
      wide_(wide),
      ranks_(ranks),
      parts_(parts),
      copy_(copy),
      scaling_(scaling),
      zero_stage_(group.zero_stage),
      optimizer_states_(static_cast<std::size_t>(group.types.scaled_moments())),
      states_(store.ranges().size(),
              State{StateNumbers(1 + optimizer_states_, 1), first_headroom(scaling, ranks.ranks())}),
      given_(states_.size(), StateNumbers(1 + optimizer_states_, 0)),
      weight_scales_(states_.size(), 1),
      saturated_shares_(states_.size(), 0) {}

void TensorScales::set_state(std::size_t index, const State& state) {
  given_[index] = state.scales;
  // The others follow from the number of ranks.
  if (state.headroom > 0 && scaling_ == GradientScaling::automatic) states_[index].headroom = state.headroom;
}

void TensorScales::for_pieces(FlatInterval place, const std::function<void(std::size_t, FlatInterval)>& work) const {
  for (std::size_t i = 0; i < store_.ranges().size(); ++i) {
    const FlatRange& range = store_.ranges()[i];
    const FlatInterval here = intersection({range.begin, range.end}, place);
    for (std::int64_t begin = here.begin; begin < here.end; begin += piece_elements)
      work(i, {begin, std::min(begin + piece_elements, here.end)});
  }
}

at::Tensor TensorScales::largest(const at::Tensor& values, FlatInterval place) const {
  at::Tensor maxima = at::zeros({static_cast<std::int64_t>(states_.size())}, at::kFloat);
  for_pieces(place, [&](std::size_t i, FlatInterval piece) {
    at::Tensor most = maxima.narrow(0, static_cast<std::int64_t>(i), 1);
    // Keeps a NaN.
    at::maximum_out(most, most, kernels::largest_magnitude(piece_of(values, piece, place)));
  });
  return maxima;
}

void TensorScales::agree(const at::Tensor& maxima, bool are_sharded) const {
  if (are_sharded) ranks_.largest(maxima).wait();
  parts_.largest(maxima);
}

void TensorScales::set_weight_scale(std::size_t i, float scale, float largest) {
  states_[i].scales[0] = weight_scales_[i] = scale;
  if (copy_ == WeightCopy::none) return;
  // The copy is one of the rounded weights, so that those of a checkpoint give the same.
  const at::Tensor rounded = at::full({1}, largest * scale).to(at::kHalf).to(at::kFloat).div(scale);
  weight_scales_[i] = kernels::fp8_scale(rounded, Fp8Format::e4m3).item<float>();
}

void TensorScales::store(std::size_t what, const at::Tensor& values, const at::Tensor& payload, FlatInterval place) {
  const at::Tensor maxima = largest(values, place);
  agree(maxima, true);
  const auto* most = maxima.const_data_ptr<float>();
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const float given = std::exchange(given_[i][what], 0);
    const float scale = given > 0 ? given : scale_for(what, payload.scalar_type(), most[i]);
    states_[i].scales[what] = scale;
    if (what == 0) set_weight_scale(i, scale, most[i]);
  }
  for_pieces(place, [&](std::size_t i, FlatInterval piece) {
    const at::Tensor scaled = piece_of(values, piece, place).mul(states_[i].scales[what]);
    const bool is_second_moment = what > 0 && payload.scalar_type() == at::kHalf;
    piece_of(payload, piece, place).copy_(is_second_moment ? kept_positive(scaled) : scaled);
  });
}

at::Tensor TensorScales::weights(const at::Tensor& payload, FlatInterval place) const {
  at::Tensor values = at::zeros({place.count()}, payload.options().dtype(at::kFloat));
  for_pieces(place, [&](std::size_t i, FlatInterval piece) {
    piece_of(values, piece, place).copy_(piece_of(payload, piece, place)).div_(states_[i].scales[0]);
  });
  return values;
}

void TensorScales::copy_weights(const at::Tensor& payload, const at::Tensor& copy, FlatInterval place) const {
  for_pieces(place, [&](std::size_t i, FlatInterval piece) {
    const at::Tensor values = piece_of(payload, piece, place).to(at::kFloat).div_(states_[i].scales[0]);
    const at::Tensor scale = at::full({1}, weight_scales_[i]);
    if (statistics_ != nullptr) statistics_->add(Fp8Tensors::weights, values, scale, Fp8Format::e4m3);
    piece_of(copy, piece, place).copy_(kernels::cast_to_fp8(values, scale, Fp8Format::e4m3));
  });
}

void TensorScales::cast_gradients(const at::Tensor& accumulated, const at::Tensor& payload) {
  const auto& ranges = store_.ranges();
  const at::Tensor maxima = largest(accumulated, {0, accumulated.numel()});
  // Payloads are summed as they are, so that all ranks of a tensor have to scale alike.
  agree(maxima, true);
  gradient_scales_ = kernels::fp8_scale(maxima.mul(largest_own_payload), Fp8Format::e4m3);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (wide_.have(i)) {
      payload.slice(0, ranges[i].begin, ranges[i].end).zero_();
      continue;
    }
    const at::Tensor scale = gradient_scale(i);
    // A power of two keeps the products exact, which μ, growing by a thousandth of a doubling per step, is not.
    scale.mul_(power_below(states_[i].headroom));
    const at::Tensor own = accumulated.slice(0, ranges[i].begin, ranges[i].end);
    if (statistics_ != nullptr) statistics_->add(Fp8Tensors::weight_gradients, own, scale, Fp8Format::e4m3);
    payload.slice(0, ranges[i].begin, ranges[i].end).copy_(kernels::cast_to_fp8(own, scale, Fp8Format::e4m3));
  }
}

void TensorScales::compare_sums(const at::Tensor& sums, const at::Tensor& exact, FlatInterval place) const {
  for_pieces(place, [&](std::size_t i, FlatInterval piece) {
    if (wide_.have(i)) return;
    statistics_->add_cast(Fp8Tensors::gradient_sums, piece_of(exact, piece, place), piece_of(sums, piece, place),
                          gradient_scale(i));
  });
}

void TensorScales::adapt(const at::Tensor& sums, FlatInterval place) {
  const at::Tensor counts = at::zeros({static_cast<std::int64_t>(states_.size())}, at::kFloat);
  auto* saturated = counts.mutable_data_ptr<float>();
  for_pieces(place, [&](std::size_t i, FlatInterval piece) {
    saturated[i] += static_cast<float>(kernels::count_saturated(piece_of(sums, piece, place)));
  });
  if (zero_stage_ > 0) ranks_.sum(counts).wait();
  if (parts_.ranks() > 1) parts_.sum(counts);
  // Each of them has counted the same shards.
  const double replicas = zero_stage_ > 0 ? ranks_.replicas() : 1;
  const float growth = std::exp2(1 / doubling_steps);
  saturated_ = {};
  saturated_shares_.assign(states_.size(), 0);
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (wide_.have(i)) continue;
    const FlatRange& range = store_.ranges()[i];
    const SaturatedSums of{static_cast<double>((range.end - range.begin) * parts_.ranks()), saturated[i] / replicas};
    saturated_.elements += of.elements;
    saturated_.saturated += of.saturated;
    saturated_shares_[i] = of.saturated / of.elements;
    if (scaling_ != GradientScaling::automatic) continue;
    float& headroom = states_[i].headroom;
    headroom = saturated_shares_[i] > most_saturated ? headroom / 2 : std::min(1.0F, headroom * growth);
  }
}

double TensorScales::sum_of_squares(const at::Tensor& gradients, FlatInterval place, FlatInterval part) const {
  double sum = 0;
  for_pieces(intersection(place, part), [&](std::size_t i, FlatInterval piece) {
    if (store_.part(store_.ranges()[i].parameter).copy != 0) return;
    sum += kernels::sum_of_squares(widened_gradients(gradients, place, i, piece));
  });
  return sum;
}

at::Tensor TensorScales::widened_gradients(const at::Tensor& gradients, FlatInterval place, std::size_t i,
                                           FlatInterval piece) const {
  if (wide_.have(i)) return wide_.piece(i, piece);
  return kernels::widen_fp8(piece_of(gradients, piece, place), gradient_scale(i), at::kFloat);
}

void TensorScales::update(Optimizer& optimizer, const OptimizerUpdate& update, const Held& of,
                          const at::Tensor& gradients, FlatInterval place) {
  if (optimizer_states_ > 0) return update_scaled(optimizer, update, of, gradients, place);
  update_weights(optimizer, update, of, gradients, place);
}

ScaledUpdate TensorScales::update_of(const OptimizerUpdate& update, const Held& of, const at::Tensor& gradients,
                                     FlatInterval place, std::size_t i, FlatInterval piece) const {
  const bool is_wide = wide_.have(i);
  ScaledUpdate scaled{update, states_[i].scales, is_wide ? 1 : gradient_scale(i).item<float>()};
  scaled.of.weights = piece_of(of.weights, piece, of.held);
  scaled.of.gradients = is_wide ? wide_.piece(i, piece) : piece_of(gradients, piece, place);
  scaled.of.begin = piece.begin - place.begin;
  return scaled;
}

void TensorScales::update_weights(Optimizer& optimizer, const OptimizerUpdate& update, const Held& of,
                                  const at::Tensor& gradients, FlatInterval place) {
  // The next scales follow from the weights before the update, within which weight_scale() leaves room for a step: that
  // saves the pass over all states which small moments need.
  at::Tensor maxima = largest(of.weights, of.held);
  for (std::size_t i = 0; i < states_.size(); ++i) maxima.mutable_data_ptr<float>()[i] /= weight_scales_[i];
  // Below ZeRO-3 all data ranks hold the same whole weights and find the same maxima.
  agree(maxima, zero_stage_ == 3);
  const std::size_t numbers = 1 + optimizer.states().size();
  // With those of the states in fp32.
  const auto with_ones = [&](float scale) {
    StateNumbers all(numbers, 1);
    all[0] = scale;
    return all;
  };
  std::vector<float> next;
  for (std::size_t i = 0; i < states_.size(); ++i) next.push_back(weight_scale(maxima.const_data_ptr<float>()[i]));
  for_pieces(place, [&](std::size_t i, FlatInterval piece) {
    ScaledUpdate scaled = update_of(update, of, gradients, place, i, piece);
    scaled.scales = with_ones(weight_scales_[i]);
    optimizer.update(scaled, with_ones(next[i]));
  });
  for (std::size_t i = 0; i < states_.size(); ++i) states_[i].scales[0] = weight_scales_[i] = next[i];
}

void TensorScales::update_scaled(Optimizer& optimizer, const OptimizerUpdate& update, const Held& of,
                                 const at::Tensor& gradients, FlatInterval place) {
  const auto of_piece = [&](std::size_t i, FlatInterval piece) {
    return update_of(update, of, gradients, place, i, piece);
  };
  const std::size_t numbers = 1 + optimizer_states_;
  const at::Tensor maxima = at::zeros({static_cast<std::int64_t>(states_.size() * numbers)}, at::kFloat);
  auto* most = maxima.mutable_data_ptr<float>();
  for_pieces(place, [&](std::size_t i, FlatInterval piece) {
    const StateNumbers found = optimizer.largest_after(of_piece(i, piece));
    // Keeps a NaN.
    for (std::size_t what = 0; what < numbers; ++what)
      if (float& known = most[i * numbers + what]; !(found[what] <= known)) known = found[what];
  });
  // Without shards every data rank has computed the same values.
  agree(maxima, zero_stage_ > 0);
  std::vector<StateNumbers> next(states_.size());
  const std::vector<at::ScalarType> types = types_of(of.weights, optimizer);
  for (std::size_t i = 0; i < states_.size(); ++i)
    for (std::size_t what = 0; what < numbers; ++what)
      next[i].push_back(scale_for(what, types[what], most[i * numbers + what]));
  for_pieces(place, [&](std::size_t i, FlatInterval piece) { optimizer.update(of_piece(i, piece), next[i]); });
  for (std::size_t i = 0; i < states_.size(); ++i) {
    states_[i].scales = next[i];
    set_weight_scale(i, next[i][0], most[i * numbers]);
  }
}

}  // namespace llmtrain
