// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/runtime/calibration/stopwatch.h"

namespace llmtrain {

// Passes over the device's memory, and the start-up time of a small one: profile.device's bandwidth and kernel_seconds,
// .memory and the host's times per operator.
void measure_memory(const Stopwatch& stopwatch, ClusterProfile& profile);

// Causal attention both ways, as fractions of the peak: profile.attention. After the products.
void measure_attention(const Stopwatch& stopwatch, ClusterProfile& profile);

// Copies between a GPU and pinned memory of the host, in the slower of both directions:
// profile.device.pcie_bandwidth. Nothing on a CPU.
void measure_host_copies(const Stopwatch& stopwatch, ClusterProfile& profile);

}  // namespace llmtrain
