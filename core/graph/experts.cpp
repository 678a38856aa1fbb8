// SPDX-License-Identifier: Apache-2.0
#include "core/graph/experts.h"

#include <algorithm>
#include <cmath>

namespace llmtrain {

bool has_experts(const ModelRecipe& model, std::int64_t layer) {
  return model.moe && (layer + 1) % model.moe->every == 0;
}

std::int64_t expert_capacity(const MixtureOfExpertsRecipe& moe, std::int64_t tokens) {
  // The formula rounds twice: the share up, its product with the factor down.
  const std::int64_t share = (tokens + moe.experts - 1) / moe.experts;
  if (moe.capacity_factor <= 0) return moe.top_k * share;
  return moe.top_k * static_cast<std::int64_t>(std::floor(moe.capacity_factor * static_cast<double>(share)));
}

ExpertLoad expert_load(const MixtureOfExpertsRecipe& moe) {
  const auto top_k = static_cast<double>(moe.top_k);
  // Without dropping, even routing leaves no place empty.
  if (moe.capacity_factor <= 0) return {top_k, 0};
  return {top_k * std::min(1.0, moe.capacity_factor), top_k * std::max(0.0, moe.capacity_factor - 1)};
}

}  // namespace llmtrain
