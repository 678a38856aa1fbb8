// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/tensor_scales.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/fp8.h"
#include "kernels/reduction.h"

namespace llmtrain {
namespace {

using kernels::Fp8Format;

// Bounds the fp32 copies of weights and gradients that an update works on, 4 MB each.
constexpr std::int64_t piece_elements = std::int64_t{1} << 20;

// Auto-scaling (Peng et al., arXiv 2310.18313, section 2.1).
constexpr double saturated_share = 1e-5;
constexpr float doubling_steps = 1000;

// A payload of 448 is a sum that has saturated: no rank's own gradient becomes 448, because those from 432 on, which
// would be rounded to it, get the next smaller scale.
constexpr float largest_own_payload = 448.0F / 432 * 1.0001F;
constexpr std::uint8_t magnitude_bits = 0x7f, saturated_bits = 0x7e;

// The largest power of two that is at most x, which is positive. Products with it are exact.
float power_below(float x) {
  int exponent_and_one = 0;
  std::frexp(x, &exponent_and_one);
  return std::ldexp(1.0F, exponent_and_one - 1);
}

// Places the largest weight of magnitude `largest` at 2¹¹ to 2¹²: one step may multiply it by 16 before it leaves fp16,
// and a weight 2²⁵ times smaller is still a normal number. At most 2¹⁴, with which a step may take weights near zero to
// 4 and those from 2⁻²⁸ on are normal. What is not finite keeps a scale, and stays visible in the payload.
float weight_scale(float largest) {
  if (!(largest > 0) || !std::isfinite(largest)) return 1;
  int exponent_and_one = 0;
  std::frexp(largest, &exponent_and_one);
  return std::ldexp(1.0F, std::clamp(12 - exponent_and_one, -100, 14));
}

at::Tensor piece_of(const at::Tensor& flat, FlatInterval elements, FlatInterval place) {
  return flat.slice(0, elements.begin - place.begin, elements.end - place.begin);
}

}  // namespace

TensorScales::TensorScales(const ParameterStore& store, const DataParallel& ranks, const TensorParallel& tensor)
    : store_(store),
      ranks_(ranks),
      tensor_(tensor),
      // With a share of the range for each rank no sum saturates; where there is room it grows from there.
      states_(store.ranges().size(), State{1, 1 / static_cast<float>(ranks.ranks())}),
      weight_scales_(states_.size(), 1),
      is_given_(states_.size(), false) {}

void TensorScales::set_state(std::size_t index, const State& state) {
  states_[index] = state;
  is_given_[index] = true;
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
    const at::Tensor most = maxima.narrow(0, static_cast<std::int64_t>(i), 1);
    // Keeps a NaN.
    at::maximum_out(const_cast<at::Tensor&>(most), most, kernels::largest_magnitude(piece_of(values, piece, place)));
  });
  return maxima;
}

void TensorScales::store_weights(const at::Tensor& values, const at::Tensor& payload, FlatInterval place) {
  const at::Tensor maxima = largest(values, place);
  ranks_.largest(maxima).wait();
  tensor_.largest(maxima);
  const auto* most = maxima.const_data_ptr<float>();
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (!is_given_[i]) states_[i].weight = weight_scale(most[i]);
    weight_scales_[i] = states_[i].weight;
  }
  is_given_.assign(is_given_.size(), false);
  for_pieces(place, [&](std::size_t i, FlatInterval piece) {
    piece_of(payload, piece, place).copy_(piece_of(values, piece, place).mul(weight_scales_[i]));
  });
}

at::Tensor TensorScales::weights(const at::Tensor& payload, FlatInterval place) const {
  at::Tensor values = at::zeros({place.count()}, payload.options().dtype(at::kFloat));
  for_pieces(place, [&](std::size_t i, FlatInterval piece) {
    piece_of(values, piece, place).copy_(piece_of(payload, piece, place)).div_(weight_scales_[i]);
  });
  return values;
}

void TensorScales::cast_gradients(const at::Tensor& accumulated, const at::Tensor& payload) {
  const auto& ranges = store_.ranges();
  const at::Tensor maxima = largest(accumulated, {0, accumulated.numel()});
  ranks_.largest(maxima).wait();
  tensor_.largest(maxima);
  gradient_scales_ = kernels::fp8_scale(maxima.mul(largest_own_payload), Fp8Format::e4m3);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const at::Tensor scale = gradient_scale(i);
    scale.mul_(power_below(states_[i].headroom));
    const at::Tensor own = accumulated.slice(0, ranges[i].begin, ranges[i].end);
    payload.slice(0, ranges[i].begin, ranges[i].end).copy_(kernels::cast_to_fp8(own, scale, Fp8Format::e4m3));
  }
}

void TensorScales::adapt(const at::Tensor& sums, FlatInterval place, bool is_part) {
  const at::Tensor counts = at::zeros({static_cast<std::int64_t>(states_.size())}, at::kFloat);
  auto* saturated = counts.mutable_data_ptr<float>();
  for_pieces(place, [&](std::size_t i, FlatInterval piece) {
    const auto* bits = static_cast<const std::uint8_t*>(piece_of(sums, piece, place).const_data_ptr());
    saturated[i] += static_cast<float>(std::count_if(
        bits, bits + piece.count(), [](std::uint8_t bit) { return (bit & magnitude_bits) == saturated_bits; }));
  });
  if (is_part) ranks_.sum(counts).wait();
  if (tensor_.ranks() > 1) tensor_.sum(counts);
  const float growth = std::exp2(1 / doubling_steps);
  saturated_ = {};
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const FlatRange& range = store_.ranges()[i];
    const auto elements = static_cast<double>((range.end - range.begin) * tensor_.ranks());
    const double share = saturated[i] / elements;
    saturated_.elements += elements;
    saturated_.saturated += saturated[i];
    float& headroom = states_[i].headroom;
    headroom = share > saturated_share ? headroom / 2 : std::min(1.0F, headroom * growth);
  }
}

double TensorScales::sum_of_squares(const at::Tensor& gradients, FlatInterval place, FlatInterval part) const {
  double sum = 0;
  for_pieces(intersection(place, part), [&](std::size_t i, FlatInterval piece) {
    if (store_.part(store_.ranges()[i].parameter).copy != 0) return;
    const at::Tensor scale = gradient_scale(i);
    sum += kernels::sum_of_squares(kernels::widen_fp8(piece_of(gradients, piece, place), scale, at::kFloat));
  });
  return sum;
}

void TensorScales::update(Optimizer& optimizer, OptimizerUpdate update, const Held& of, const at::Tensor& gradients,
                          FlatInterval place) {
  at::Tensor maxima = largest(of.weights, of.held);
  for (std::size_t i = 0; i < states_.size(); ++i) maxima.mutable_data_ptr<float>()[i] /= weight_scales_[i];
  if (of.is_part) ranks_.largest(maxima).wait();
  tensor_.largest(maxima);
  std::vector<float> next;
  for (std::size_t i = 0; i < states_.size(); ++i) next.push_back(weight_scale(maxima.const_data_ptr<float>()[i]));
  for_pieces(place, [&](std::size_t i, FlatInterval piece) {
    const at::Tensor payload = piece_of(of.weights, piece, of.held);
    update.weights = payload.to(at::kFloat).div_(weight_scales_[i]);
    update.gradients = kernels::widen_fp8(piece_of(gradients, piece, place), gradient_scale(i), at::kFloat);
    update.begin = piece.begin - place.begin;
    optimizer.update(update);
    payload.copy_(update.weights.mul_(next[i]));
  });
  for (std::size_t i = 0; i < states_.size(); ++i) states_[i].weight = weight_scales_[i] = next[i];
}

}  // namespace llmtrain
