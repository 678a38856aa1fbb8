// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers/fp8_history.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/host_copy.h"

namespace llmtrain {

Fp8History::Fp8History(std::vector<std::size_t> products, const Fp8ScalingRecipe& recipe, std::int64_t fallback_steps)
    : products_(std::move(products)),
      margin_(std::ldexp(1.0F, -static_cast<int>(recipe.margin))),
      fallback_steps_(static_cast<float>(fallback_steps)),
      tracks_(products_.size(), Track{MaximaWindow(static_cast<std::size_t>(recipe.history_steps), fp8_operands)}) {
  for (std::size_t i = 0; i < products_.size(); ++i) index_[products_[i]] = i;
}

void Fp8History::note(std::size_t product, Fp8Operand operand, float largest) {
  float& noted = tracks_[index_.at(product)].noted[static_cast<std::size_t>(operand)];
  noted = static_cast<float>(kernels::larger_magnitude(noted, largest));
}

at::Tensor Fp8History::place_of(const at::Tensor& numbers, std::size_t product, Fp8Operand operand) const {
  const std::size_t place = index_.at(product) * fp8_operands + static_cast<std::size_t>(operand);
  return numbers.narrow(0, static_cast<std::int64_t>(place), 1);
}

void Fp8History::note(std::size_t product, Fp8Operand operand, const at::Tensor& largest) {
  if (!device_noted_.defined())
    device_noted_ = at::zeros({static_cast<std::int64_t>(tracks_.size() * fp8_operands)}, largest.options());
  at::Tensor noted = place_of(device_noted_, product, operand);
  // Keeps a NaN.
  at::maximum_out(noted, noted, largest);
}

at::Tensor Fp8History::scale_on(const at::Device& device, std::size_t product, Fp8Operand operand) {
  if (!device_scales_.defined()) {
    const at::Tensor scales = at::empty({static_cast<std::int64_t>(tracks_.size() * fp8_operands)}, at::kFloat);
    auto* next = scales.mutable_data_ptr<float>();
    for (const Track& track : tracks_) next = std::ranges::copy(track.scales, next).out;
    device_scales_ = kernels::to_device(scales, device);
  }
  return place_of(device_scales_, product, operand);
}

float Fp8History::scale(std::size_t product, Fp8Operand operand) const {
  return tracks_[index_.at(product)].scales[static_cast<std::size_t>(operand)];
}

bool Fp8History::has_fallen_back(std::size_t product) const { return tracks_[index_.at(product)].fallback[1] == 1; }

at::Tensor Fp8History::take_largest() {
  if (device_noted_.defined()) return std::exchange(device_noted_, {});
  const at::Tensor largest = at::empty({static_cast<std::int64_t>(tracks_.size() * fp8_operands)}, at::kFloat);
  auto* next = largest.mutable_data_ptr<float>();
  for (Track& track : tracks_) next = std::ranges::copy(std::exchange(track.noted, {}), next).out;
  return largest;
}

std::optional<Fp8History::Fallback> Fp8History::overflow(const Track& track, std::span<const double> newest) {
  std::optional<Fallback> worst;
  for (std::size_t i = 0; i < fp8_operands; ++i) {
    if (track.scales[i] == 0) continue;
    const auto operand = static_cast<Fp8Operand>(i);
    const double range = kernels::largest_of(fp8_format(operand)) / track.scales[i];
    if (newest[i] > range && (!worst || newest[i] / range > worst->largest / worst->range))
      worst = Fallback{0, operand, newest[i], range};
  }
  return worst;
}

std::vector<Fp8History::Fallback> Fp8History::record(std::span<const double> largest) {
  if (!std::ranges::all_of(largest, [](double each) { return std::isfinite(each); })) return {};
  std::vector<Fallback> leaving;
  for (std::size_t i = 0; i < tracks_.size(); ++i) {
    Track& track = tracks_[i];
    auto& [overflowing_steps, has_left] = track.fallback;
    if (has_left == 1) continue;
    const auto newest = largest.subspan(i * fp8_operands, fp8_operands);
    auto worst = overflow(track, newest);
    overflowing_steps = worst ? overflowing_steps + 1 : 0;
    if (worst && fallback_steps_ > 0 && overflowing_steps >= fallback_steps_) {
      worst->product = products_[i];
      leaving.push_back(*worst);
      has_left = 1;
    }
    Numbers row{};
    std::ranges::transform(newest, row.begin(), [](double each) { return static_cast<float>(each); });
    track.maxima.push(row);
    choose_scales(track);
  }
  return leaving;
}

void Fp8History::set_state(std::size_t index, const State& state) {
  Track& track = tracks_[index];
  track.maxima.assign(state.maxima);
  track.fallback = state.fallback;
  choose_scales(track);
}

void Fp8History::choose_scales(Track& track) {
  device_scales_.reset();
  for (std::size_t operand = 0; operand < fp8_operands; ++operand) {
    const float largest = track.maxima.largest(operand);
    const float scale = largest > 0 ? kernels::fp8_scale(largest, fp8_format(static_cast<Fp8Operand>(operand))) : 0;
    track.scales[operand] = scale * margin_;
  }
}

}  // namespace llmtrain
