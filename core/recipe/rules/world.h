// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/recipe/recipe.h"

namespace llmtrain {

// The number of ranks, and how many of them share a node.
struct World {
  std::int64_t ranks = 1;
  std::int64_t devices_per_node = 1;
};

// tensor × pipeline × context: the ranks of one data-parallel replica.
std::int64_t ranks_per_replica(const ParallelRecipe& parallel);

// The product of the explicit degrees. In floating point, which no degrees overflow; so is ranks_asked_for().
double product_of_degrees(const ParallelRecipe& parallel);

// `launch.ranks`, else the product of the degrees where `parallel.data` is given, else none.
std::optional<double> ranks_asked_for(const Recipe& recipe);

// The ranks that the recipe asks for, else nodes × devices per node. `devices_per_node` is the recipe's or, where it is
// left open, the profile's; at least 1.
World world_of(const Recipe& recipe, std::int64_t devices_per_node);

}  // namespace llmtrain
