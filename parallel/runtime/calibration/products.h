// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/runtime/calibration/stopwatch.h"

namespace llmtrain {

// The rates of matrix products by type, and the curve of their efficiency: profile.device.peak_flops and .matrix.
void measure_matrix(const Stopwatch& stopwatch, ClusterProfile& profile);

}  // namespace llmtrain
