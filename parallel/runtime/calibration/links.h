// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/runtime/calibration/stopwatch.h"

namespace llmtrain {

// All-reduces among 2, 4, 8, … of this machine's GPUs over NCCL, with a thread per GPU: profile.node.all_reduce.
// Returns whether it has measured any: not with one GPU, or without the part for NCCL.
bool measure_links(const Stopwatch& stopwatch, int gpus, ClusterProfile& profile);

}  // namespace llmtrain
