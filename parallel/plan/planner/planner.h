// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/recipe/recipe.h"
#include "parallel/plan/cost/cluster_profile.h"
#include "parallel/plan/report/plan.h"
#include "parallel/plan/simulator.h"

namespace llmtrain {

// Prices a recipe without tensors, MPI or GPU: mesh, placement, schedule (proved by check()), costs, memory, one
// simulated step, and the report with its warnings, without suggestions. Throws Error(bad_recipe) with every reason
// when the recipe cannot be laid out; one that does not fit the memory is a plan like any other. Ranks that share the
// cluster's devices are priced with their part of them (share_devices()).
Plan make_plan(const Recipe& recipe, const ClusterProfile& cluster, Timeline timeline = Timeline::leave_out);

// The three cheapest changes of one key that make the plan fit or, where it fits, faster by more than 2 %: the cheapest
// is the one with the shortest step. Prices some twenty neighbours of the recipe.
std::vector<PlanSuggestion> suggest(const Plan& plan, const ClusterProfile& profile);

}  // namespace llmtrain
