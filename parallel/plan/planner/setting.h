// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/graph.h"
#include "core/graph/saved_tensors.h"
#include "core/recipe/recipe.h"
#include "parallel/plan/cost/cluster_profile.h"
#include "parallel/plan/mesh.h"
#include "parallel/plan/placement.h"
#include "parallel/plan/schedule.h"

namespace llmtrain {

// What follows from a recipe before anything is priced.
struct PlanSetting {
  Mesh mesh;
  std::vector<Stage> stages;
  ScheduleShape shape;
  KernelSet kernels{};
};

// `graph` is the recipe's. Throws Error(bad_recipe) with every reason when the recipe cannot be laid out.
PlanSetting make_setting(const Recipe& recipe, const Graph& graph, const ClusterProfile& profile);

}  // namespace llmtrain
