// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "parallel/layout/layout.h"
#include "parallel/plan/cost/cluster_profile.h"
#include "parallel/plan/simulator/step_costs.h"

namespace llmtrain {

// Prices every instruction that a schedule of this partition may contain. Blocks that are alike are priced once, so
// that a search can price thousands of layouts per second.
StepCosts make_step_costs(const Partition& partition, const ClusterProfile& profile);

// For each kind of exchange, what its busiest rank sends in one step: bytes by the ring algorithm
// (core/base/collective.h), and the collectives' time without overlap. Exchanges that move nothing are left out.
std::vector<CommunicationEntry> communication_of(const Layout& layout, const ClusterProfile& profile);

}  // namespace llmtrain
