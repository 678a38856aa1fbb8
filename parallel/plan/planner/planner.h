// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "core/recipe/recipe.h"
#include "parallel/plan/cost/cluster_profile.h"
#include "parallel/plan/report/plan.h"
#include "parallel/plan/simulator/simulator.h"

namespace llmtrain {

// The layout of a recipe in the world that it and the cluster give. Throws Error(bad_recipe) with every reason when the
// recipe cannot be laid out.
std::shared_ptr<const Layout> lay_out(const Recipe& recipe, const ClusterProfile& cluster);

// Prices a layout without tensors, MPI or GPU: costs, memory, one simulated step, and the report with its warnings,
// without suggestions. One that does not fit the memory is a plan like any other. Ranks that share the cluster's
// devices are priced with their part of them (share_devices()).
Plan make_plan(std::shared_ptr<const Layout> layout, const ClusterProfile& cluster,
               Timeline timeline = Timeline::leave_out);
inline Plan make_plan(const Recipe& recipe, const ClusterProfile& cluster, Timeline timeline = Timeline::leave_out) {
  return make_plan(lay_out(recipe, cluster), cluster, timeline);
}

// The operators of the device that the recipe asks for, or of the profile's.
KernelSet kernel_set(const Recipe& recipe, const ClusterProfile& profile);

// The three cheapest changes of one key that make the plan fit or, where it fits, faster by more than 2 %: the cheapest
// is the one with the shortest step. Prices some twenty neighbours of the recipe.
std::vector<PlanSuggestion> suggest(const Plan& plan, const ClusterProfile& profile);

}  // namespace llmtrain
