// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/recipe.h"
#include "parallel/plan/cost/cluster_profile.h"

namespace llmtrain {

// Measures this machine with the operators that training uses: matrix products over sizes and types, attention, passes
// over memory, the start of a small operator. Takes some ten seconds and wants the machine for itself. What one device
// cannot measure (links, adapters) is memory's bandwidth on a CPU, and for a GPU taken from `base`. Throws as
// choose_device() does.
ClusterProfile calibrate(DeviceKind device, const ClusterProfile& base);

}  // namespace llmtrain
