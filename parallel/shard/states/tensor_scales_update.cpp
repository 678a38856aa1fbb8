// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "parallel/shard/states/flat_piece.h"
#include "parallel/shard/states/storage_scales.h"
#include "parallel/shard/states/tensor_scales.h"

namespace llmtrain {
namespace {

// In the order of StateNumbers.
std::vector<at::ScalarType> types_of(const OptimizerUpdate& update, const Optimizer& optimizer) {
  std::vector<at::ScalarType> types{update.weights.scalar_type()};
  for (const OptimizerState& state : optimizer.states()) types.push_back(state.values.scalar_type());
  return types;
}

// The elements of a piece, in the store.
FlatInterval place_of(const OptimizerUpdate& of_piece, FlatInterval place) {
  const std::int64_t begin = place.begin + of_piece.begin;
  return {begin, begin + of_piece.weights.numel()};
}

}  // namespace

void TensorScales::update(Optimizer& optimizer, const OptimizerUpdate& update, const Held& seen, FlatInterval place,
                          const at::Device& there, const MakePass& make_pass) {
  if (optimizer_states_ > 0) return update_scaled(optimizer, update, place, there, make_pass);
  update_weights(optimizer, seen, place, there, make_pass);
}

ScaledUpdate TensorScales::update_of(const OptimizerUpdate& of, FlatInterval place, std::size_t i, FlatInterval piece,
                                     const UpdateNumbers& numbers) const {
  const bool is_uncast = uncast_.have(i);
  ScaledUpdate scaled{of, numbers.scales[static_cast<std::int64_t>(i)],
                      is_uncast ? at::ones({1}, numbers.scales.options()) : of_range(numbers.gradient_scales, i),
                      numbers.numbers[static_cast<std::int64_t>(i)]};
  scaled.of.weights = piece_of(of.weights, piece, place);
  scaled.of.gradients =
      is_uncast ? uncast_.piece(i, piece).to(of.weights.device()) : piece_of(of.gradients, piece, place);
  for (at::Tensor& state : scaled.of.states) state = piece_of(state, piece, place);
  scaled.of.compute_weights.reset();
  scaled.of.begin = of.begin + piece.begin - place.begin;
  if (roundings_.empty()) return scaled;
  scaled.rounding = roundings_[i];
  scaled.rounding->key = kernels::rounding_key(roundings_[i].key, of.step);
  scaled.rounding->skipped = piece.begin - store_.ranges()[i].begin;
  return scaled;
}

void TensorScales::for_updates(const OptimizerUpdate& of, FlatInterval place, const UpdateNumbers& numbers,
                               const std::function<void(std::span<const ScaledUpdate>)>& work) const {
  std::vector<ScaledUpdate> updates;
  std::int64_t copied = 0;
  const std::int64_t most = piece_elements(numbers.scales);
  for (std::size_t i = 0; i < store_.ranges().size(); ++i) {
    const FlatRange& range = store_.ranges()[i];
    const FlatInterval here = intersection({range.begin, range.end}, place);
    const std::int64_t step = uncast_.have(i) ? most : std::max<std::int64_t>(here.count(), 1);
    for (std::int64_t begin = here.begin; begin < here.end; begin += step) {
      updates.push_back(update_of(of, place, i, {begin, std::min(begin + step, here.end)}, numbers));
      if (uncast_.have(i)) copied += updates.back().of.gradients.numel();
      if (copied < most) continue;
      work(updates);
      updates.clear();
      copied = 0;
    }
  }
  work(updates);
}

PieceUpdate TensorScales::storing(Optimizer& optimizer, FlatInterval place, const UpdateNumbers& numbers) const {
  return [this, &optimizer, place, numbers](const OptimizerUpdate& of) {
    const FlatInterval here = place_of(of, place);
    for_updates(of, here, numbers, [&](std::span<const ScaledUpdate> updates) { optimizer.update(updates); });
    if (!of.compute_weights) return;
    // In the pass that has the new weights at hand.
    if (copy_ == WeightCopy::none)
      of.compute_weights->copy_(of.weights);
    else
      cast_weights(of.weights, numbers.numbers.select(1, 0).contiguous(), *of.compute_weights, here);
  };
}

void TensorScales::update_weights(Optimizer& optimizer, const Held& seen, FlatInterval place, const at::Device& there,
                                  const MakePass& make_pass) {
  // The next scales follow from the weights before the update, within which weight_scale() leaves room for a step: that
  // saves the pass over all states which small moments need.
  const at::Tensor maxima = largest(seen.weights, seen.held).div_(weight_scales_);
  // Below ZeRO-3 all data ranks hold the same whole weights and find the same maxima.
  agree(maxima, zero_stage_ == 3);
  const auto numbers = static_cast<std::int64_t>(1 + optimizer.states().size());
  // With those of the states in fp32.
  const auto with_ones = [&](const at::Tensor& scales) {
    at::Tensor all = at::ones({scales.numel(), numbers}, scales.options());
    all.select(1, 0).copy_(scales);
    return numbers_at(all, there);
  };
  const at::Tensor next = weight_scale(maxima), before = with_ones(weight_scales_), after = with_ones(next);
  make_pass(UpdatePass::update, storing(optimizer, place, {before, numbers_at(gradient_scales_, there), after}));
  set_weight_scales(next, maxima);
}

void TensorScales::update_scaled(Optimizer& optimizer, const OptimizerUpdate& update, FlatInterval place,
                                 const at::Device& there, const MakePass& make_pass) {
  const at::Tensor before = numbers_at(scales_, there), of_gradients = numbers_at(gradient_scales_, there);
  const at::Tensor found = at::zeros_like(before);
  make_pass(UpdatePass::find_largest, [&](const OptimizerUpdate& of) {
    for_updates(of, place_of(of, place), {before, of_gradients, found},
                [&](std::span<const ScaledUpdate> updates) { optimizer.find_largest(updates); });
  });
  const at::Tensor maxima = numbers_at(found, scales_.device());
  // Without shards every data rank has computed the same values.
  agree(maxima, zero_stage_ > 0);
  const at::Tensor next = at::empty_like(scales_);
  const std::vector<at::ScalarType> types = types_of(update, optimizer);
  for (std::size_t what = 0; what < types.size(); ++what) {
    const auto column = static_cast<std::int64_t>(what);
    next.select(1, column).copy_(scale_for(what, types[what], maxima.select(1, column).contiguous()));
  }
  // Before the pass, which makes weights with them.
  set_seen_scales(next.select(1, 0).contiguous(), maxima.select(1, 0).contiguous());
  make_pass(UpdatePass::update, storing(optimizer, place, {before, of_gradients, numbers_at(next, there)}));
  scales_.copy_(next);
}

}  // namespace llmtrain
