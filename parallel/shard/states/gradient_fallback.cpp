// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/gradient_fallback.h"

#include <utility>

namespace llmtrain {

GradientFallback::GradientFallback(std::vector<std::size_t> matrices, std::int64_t steps)
    : matrices_(std::move(matrices)),
      steps_(static_cast<float>(steps)),
      states_(matrices_.size(), State{}),
      shares_(matrices_.size(), 0) {
  for (std::size_t i = 0; i < matrices_.size(); ++i) index_[matrices_[i]] = i;
}

std::vector<double> GradientFallback::take_shares() {
  return std::exchange(shares_, std::vector<double>(matrices_.size(), 0));
}

std::vector<GradientFallback::Fallback> GradientFallback::record(std::span<const double> shares) {
  std::vector<Fallback> leaving;
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    auto& [saturated_steps, has_left] = states_[i];
    if (has_left == 1) continue;
    saturated_steps = shares[i] > most_saturated ? saturated_steps + 1 : 0;
    if (saturated_steps < steps_) continue;
    has_left = 1;
    leaving.push_back({matrices_[i], shares[i]});
  }
  return leaving;
}

}  // namespace llmtrain
