// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/rules/world.h"

#include <algorithm>

namespace llmtrain {

std::int64_t ranks_per_replica(const ParallelRecipe& parallel) {
  return parallel.tensor * parallel.pipeline * parallel.context;
}

double product_of_degrees(const ParallelRecipe& parallel) {
  return static_cast<double>(ranks_per_replica(parallel)) * static_cast<double>(parallel.data.value_or(1));
}

std::optional<double> ranks_asked_for(const Recipe& recipe) {
  if (recipe.launch.ranks) return static_cast<double>(*recipe.launch.ranks);
  if (recipe.parallel.data) return product_of_degrees(recipe.parallel);
  return std::nullopt;
}

World world_of(const Recipe& recipe, std::int64_t devices_per_node) {
  // Fits int64: converting a larger double would be undefined. The rules refuse far smaller numbers.
  constexpr double most = 1e18;
  const double devices = static_cast<double>(recipe.cluster.nodes) * static_cast<double>(devices_per_node);
  const double ranks = std::min(most, ranks_asked_for(recipe).value_or(devices));
  return {.ranks = static_cast<std::int64_t>(ranks), .devices_per_node = devices_per_node};
}

}  // namespace llmtrain
