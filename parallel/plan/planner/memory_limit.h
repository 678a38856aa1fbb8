// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/recipe/recipe.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain {

// The recipe without memory.limit, and with what the backward of each layer recomputes in its place: so that the peak
// that is planned of every rank is at most the limit, at the shortest step that is found (LimitChooser). Where
// recomputing everything is not enough and the device is a GPU, optimizer states, gradients, weights or activations go
// to the host, whichever of offload_choices() has the shortest step, but for those of the most stages that have room on
// the device (memory.offload.resident_stages), also where the recipe says what leaves. Where neither is, blocks of
// bodies run in pieces (memory.chunks), the fewest of 2, 4, and so on up to 64 that are enough, unless the recipe says
// how many. A recipe without a limit is returned as it is. Pure. Throws Error(bad_recipe) where nothing is enough,
// naming what stands in the way, and where the limit is a share of memory that the profile does not state.
Recipe settle_memory_limit(const Recipe& recipe, const ClusterProfile& cluster, std::int64_t devices_per_node);

// The bytes that memory.limit, which the recipe must have, leaves each rank of the mesh: ranks share their device.
// Throws Error(bad_recipe) where it is a share of memory that the profile does not state.
double limit_of_rank(const Recipe& recipe, const ClusterProfile& cluster, const Mesh& mesh);

// What a search visits, which decides itself what is recomputed: the recipe without memory.limit, on devices that have
// no more memory than that. Errors as those of settle_memory_limit().
struct LimitedDevice {
  Recipe recipe;
  ClusterProfile cluster;
};
LimitedDevice as_device(const Recipe& recipe, const ClusterProfile& cluster);

// Up to five limits and the steps under them, from the least that can be reached to what a step without a limit takes.
std::vector<LimitPoint> limit_curve(const Recipe& recipe, const ClusterProfile& cluster, std::int64_t devices_per_node);

}  // namespace llmtrain
