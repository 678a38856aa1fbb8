// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/layout/layout.h"
#include "parallel/plan/cost/cluster_profile.h"

namespace llmtrain {

// Prices the methods of a partition whose exchange between expert ranks is open, puts the cheapest one of each bucket
// first, and plans with that of the bucket which the planned routing has. `profile`: of one rank's share of its device.
void order_by_price(Partition& partition, const ClusterProfile& profile);

}  // namespace llmtrain
