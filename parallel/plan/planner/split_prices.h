// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/layout/layout.h"
#include "parallel/plan/profile/cluster_profile.h"

namespace llmtrain {

// Settles what a partition leaves open of its experts by prices: the order in which a run tries splits of their
// products, and plans with the fastest, and the order in which it tries exchanges between expert ranks, with the
// cheapest of each bucket first. `profile`: of one rank's share of its device.
void settle_by_price(Partition& partition, const ClusterProfile& profile);

}  // namespace llmtrain
