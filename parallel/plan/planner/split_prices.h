// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/layout/layout.h"
#include "parallel/plan/cost/cluster_profile.h"

namespace llmtrain {

// Settles what a partition leaves open of its experts by prices: the order in which a run tries splits of their
// products, and plans with the fastest, and the order of the exchanges between expert ranks (order_by_price() in
// exchange_prices.h). `profile`: of one rank's share of its device.
void settle_by_price(Partition& partition, const ClusterProfile& profile);

}  // namespace llmtrain
