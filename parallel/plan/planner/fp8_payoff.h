// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/graph/operators/operators.h"
#include "core/recipe/recipe.h"
#include "parallel/plan/cost/priced_layout.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain {

// What FP8 does to the product of a linear layer: seconds for one micro-batch of a rank, forward and backward.
struct Fp8Payoff {
  std::string name;         // of the operator
  MatrixProduct product{};  // as one rank computes it
  std::size_t matrix = 0;   // its first weight, by its index in the graph
  double seconds = 0;       // in the compute type
  double fp8_seconds = 0;   // with the casts
  bool uses_fp8 = false;    // in the layout that was priced

  bool pays() const { return fp8_seconds < seconds; }
};

// One for every linear layer of the model, in the order of the graph; none at level "off".
std::vector<Fp8Payoff> fp8_payoffs(const PricedLayout& priced);

// The products of a plan, those that differ in their layer alone as one entry. Empty where all of them are in FP8
// because the recipe says so, and at level "off".
std::vector<PlannedProduct> planned_products(const PricedLayout& priced);

// The recipe with precision.fp8_products "auto" replaced by what it comes to in its layout on this cluster: "all", and
// the matrices whose products FP8 makes no faster in precision.high_precision.parameters, after those that are there.
// Another recipe is returned as it is. `devices_per_node` as in make_mesh(). Throws Error(bad_recipe) if the recipe
// cannot be laid out.
Recipe settle_fp8_products(const Recipe& recipe, const ClusterProfile& cluster, std::int64_t devices_per_node);

}  // namespace llmtrain
