// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <limits>
#include <vector>

#include "core/recipe/recipe.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/search/search.h"

namespace llmtrain::test {

Mesh mesh_of(const Recipe& recipe);

// Calls `visit` with all layouts of a search's space.
void for_each_layout(const Recipe& recipe, const Mesh& mesh, const std::function<void(const Recipe&)>& visit);

struct Exhaustive {
  std::vector<SearchCandidate> fitting;
  double fastest = std::numeric_limits<double>::infinity();

  // The least memory among those that are not so slow that a search leaves them out.
  double smallest() const;
};

// Simulates all enumerated layouts.
Exhaustive simulate_all(const Recipe& recipe, const ClusterProfile& cluster);

}  // namespace llmtrain::test
