// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/recipe/recipe.h"
#include "parallel/layout/mesh.h"
#include "parallel/plan/cost/cluster_profile.h"

namespace llmtrain {

// Ranks per node: cluster.devices_per_node if given, else the profile's devices. On a CPU ranks may outnumber a
// machine's devices (a device is all of a processor's cores, as `calibrate` measures it): a node then has the ranks
// that the recipe asks for ÷ cluster.nodes. A GPU is never shared: ranks beyond a node's GPUs are on other nodes.
std::int64_t devices_per_node(const Recipe& recipe, const ClusterProfile& profile);

// The profile as each rank of the mesh sees it: ranks that share a CPU get equal parts of its cores, memory and
// bandwidth.
ClusterProfile share_devices(const ClusterProfile& profile, const Mesh& mesh);

}  // namespace llmtrain
