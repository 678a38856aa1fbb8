// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "parallel/layout/layout.h"
#include "parallel/plan/cost/cluster_profile.h"
#include "parallel/plan/cost/cost_constants.h"
#include "parallel/plan/simulator/step_costs.h"

namespace llmtrain {

// Prices every instruction of the schedule that the partition asks for. Blocks that are alike are priced once, so that
// a search can ask thousands of times per second.
StepCosts make_step_costs(const Partition& partition, const ClusterProfile& profile,
                          const CostConstants& constants = {});

// What the busiest rank of each kind of exchange sends in one step: bytes by the ring algorithm
// (core/base/collective.h), and the time of the collectives with nothing beside them. What moves nothing is left out.
std::vector<CommunicationEntry> communication_of(const Layout& layout, const ClusterProfile& profile);

}  // namespace llmtrain
