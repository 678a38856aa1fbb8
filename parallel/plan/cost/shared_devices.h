// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/recipe.h"
#include "parallel/plan/cost/cluster_profile.h"

namespace llmtrain {

// The profile as each rank of the recipe sees it. On a CPU ranks may outnumber a machine's devices (a device is all of
// a processor's cores, as `calibrate` measures it): they then share them evenly, so that each has a part of the cores,
// of the memory and of the bandwidth, and `node.devices` are as many as the ranks of a node. A machine's ranks are
// those that the recipe asks for ÷ cluster.nodes, at most cluster.devices_per_node where it states that. A GPU is never
// shared: ranks beyond a node's GPUs stand in other nodes. A profile that is shared already comes back as it is.
ClusterProfile share_devices(const ClusterProfile& profile, const Recipe& recipe);

}  // namespace llmtrain
