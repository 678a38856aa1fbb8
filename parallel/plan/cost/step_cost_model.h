// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/graph.h"
#include "core/recipe/recipe.h"
#include "parallel/plan/cost/cluster_profile.h"
#include "parallel/plan/cost/cost_constants.h"
#include "parallel/plan/mesh.h"
#include "parallel/plan/placement.h"
#include "parallel/plan/schedule.h"
#include "parallel/plan/step_costs.h"

namespace llmtrain {

// Prices every instruction of the recipe's schedule. Each kind of block is priced once, so that a search can ask
// thousands of times a second. `graph` is the recipe's, `mesh` from make_mesh(), `stages` from place_blocks().
StepCosts make_step_costs(const Recipe& recipe, const Graph& graph, const Mesh& mesh, const std::vector<Stage>& stages,
                          const ClusterProfile& profile, const CostConstants& constants = {});

// The communication table of design.md §5 for the busiest rank of each entry. Bytes are what one rank sends by the
// ring algorithm; entries that move nothing are left out. `schedule` is the recipe's.
std::vector<CommunicationEntry> communication_of(const Recipe& recipe, const Graph& graph, const Mesh& mesh,
                                                 const std::vector<Stage>& stages, const Schedule& schedule,
                                                 const ClusterProfile& profile);

}  // namespace llmtrain
