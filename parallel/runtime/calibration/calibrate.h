// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/recipe.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain {

// Measures this machine with the operators that training uses: matrix products of several sizes and types, attention,
// passes over memory, and the start-up time of a small operator; on a GPU also FP8's and TF32's products, copies from
// and to the host, and all-reduces between GPUs over NCCL. Operands are random: a GPU is faster with ones. A quick
// effort has fewer sizes and shorter timings. Needs an otherwise idle machine. What one machine cannot measure
// (adapters, prices) is taken from the bundled profile of the device's kind, which `load` reads; on a CPU the link
// bandwidth is derived from that of memory. Throws like choose_device() and `load`.
ClusterProfile calibrate(DeviceKind device, const LoadProfile& load, Effort effort);

}  // namespace llmtrain
