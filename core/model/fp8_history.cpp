// SPDX-License-Identifier: Apache-2.0
#include "core/model/fp8_history.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace llmtrain {
namespace {

// NaN is the largest of all.
float larger(float a, float b) { return std::isnan(a) || a > b ? a : b; }

}  // namespace

Fp8History::Fp8History(std::vector<std::size_t> products, const Fp8ScalingRecipe& recipe)
    : products_(std::move(products)),
      most_(static_cast<std::size_t>(recipe.history_steps)),
      margin_(std::ldexp(1.0F, -static_cast<int>(recipe.margin))),
      tracks_(products_.size()) {
  for (std::size_t i = 0; i < products_.size(); ++i) index_[products_[i]] = i;
}

void Fp8History::note(std::size_t product, Fp8Operand operand, float largest) {
  float& noted = tracks_[index_.at(product)].noted[static_cast<std::size_t>(operand)];
  noted = larger(noted, largest);
}

float Fp8History::scale(std::size_t product, Fp8Operand operand) const {
  return tracks_[index_.at(product)].scales[static_cast<std::size_t>(operand)];
}

std::vector<double> Fp8History::take_largest() {
  std::vector<double> largest;
  for (Track& track : tracks_) {
    // Infinity compares as a NaN should.
    for (const float noted : track.noted)
      largest.push_back(std::isfinite(noted) ? noted : std::numeric_limits<float>::infinity());
    track.noted = {};
  }
  return largest;
}

void Fp8History::record(std::span<const double> largest) {
  if (!std::ranges::all_of(largest, [](double each) { return std::isfinite(each); })) return;
  for (std::size_t i = 0; i < tracks_.size(); ++i) {
    std::vector<float>& maxima = tracks_[i].maxima;
    const auto newest = largest.subspan(i * fp8_operands, fp8_operands);
    maxima.insert(maxima.begin(), newest.begin(), newest.end());
    maxima.resize(std::min(maxima.size(), most_ * fp8_operands));
    choose_scales(tracks_[i]);
  }
}

void Fp8History::set_maxima(std::size_t index, std::vector<float> maxima) {
  Track& track = tracks_[index];
  maxima.resize(std::min(maxima.size(), most_ * fp8_operands));
  track.maxima = std::move(maxima);
  choose_scales(track);
}

void Fp8History::choose_scales(Track& track) const {
  for (std::size_t operand = 0; operand < fp8_operands; ++operand) {
    float largest = 0;
    for (std::size_t i = operand; i < track.maxima.size(); i += fp8_operands)
      largest = std::max(largest, track.maxima[i]);
    const float scale = largest > 0 ? kernels::fp8_scale(largest, fp8_format(static_cast<Fp8Operand>(operand))) : 0;
    track.scales[operand] = scale * margin_;
  }
}

}  // namespace llmtrain
