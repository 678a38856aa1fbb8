// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/recipe/recipe.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/report/plan.h"
#include "parallel/plan/simulator/simulator.h"

namespace llmtrain {

// How the cluster's program divides a recipe: its gradients and states are FP8 only if the program's are, and what the
// recipe leaves open of the exchange between experts is chosen by its prices. Arguments and errors as those of
// Partition::make().
Partition partition_for(const Recipe& recipe, const ClusterProfile& cluster, std::int64_t devices_per_node,
                        std::shared_ptr<const Graph> graph = nullptr);

// The layout of a recipe in the world that the recipe and the cluster define; `graph` and errors as those of
// Partition::make().
std::shared_ptr<const Layout> lay_out(const Recipe& recipe, const ClusterProfile& cluster,
                                      std::shared_ptr<const Graph> graph = nullptr);

// Prices a layout without tensors, MPI or GPU: costs, memory, one simulated step, and the report with its warnings but
// without suggestions. A layout that does not fit the memory is planned all the same. Ranks that share the cluster's
// devices are priced with their share of them (share_devices()).
Plan make_plan(std::shared_ptr<const Layout> layout, const ClusterProfile& cluster,
               Timeline timeline = Timeline::leave_out);
inline Plan make_plan(const Recipe& recipe, const ClusterProfile& cluster, Timeline timeline = Timeline::leave_out) {
  return make_plan(lay_out(recipe, cluster), cluster, timeline);
}

// The three best changes of one decision that make the plan faster by more than 2 % or, if it does not fit yet, that
// make it fit; where one decision is not enough, of two or three. The shortest step comes first, unless it is tight and
// one with room is about as fast (first_choice()). Prices some thirty
// neighbours of the recipe (planner/neighbours.h), and up to four times as many more where none fits.
std::vector<PlanSuggestion> suggest(const Plan& plan, const ClusterProfile& profile);
// The three best changes that leave more to the host (offload_choices()), likewise; where none of them fits, those that
// recompute all layers as well.
std::vector<PlanSuggestion> suggest_host(const Plan& plan, const ClusterProfile& profile);

// Plans the recipe again without FP8. Returns a warning if that is no slower and fits as well: FP8 then risks accuracy
// and saves only memory that is available anyway. Returns none if the recipe does not use FP8.
std::optional<std::string> fp8_does_not_pay(const Plan& plan, const ClusterProfile& profile);
// A warning for each shape of the layers' products that FP8 makes no faster, with the casts that it needs. None for a
// device without FP8 products, where that holds for all of them.
std::vector<std::string> products_without_fp8_gain(const Plan& plan, const ClusterProfile& profile);

}  // namespace llmtrain
