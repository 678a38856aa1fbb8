// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/recipe.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain {

// Measures this machine with the operators that training uses: matrix products of several sizes and types, attention,
// passes over memory, and the start-up time of a small operator. A quick effort has fewer sizes and shorter timings.
// Needs an otherwise idle machine. What one device cannot measure (links, adapters) is taken from `base`, except that
// on a CPU the link bandwidth is derived from that of memory. Throws like choose_device().
ClusterProfile calibrate(DeviceKind device, const ClusterProfile& base, Effort effort);

}  // namespace llmtrain
