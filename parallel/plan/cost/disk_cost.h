// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "parallel/plan/cost/priced_layout.h"

namespace llmtrain {

// What a node's disk is taken to read and write where its profile does not state host.disk_bandwidth: an assumption, of
// one NVMe drive that does both in turns.
inline constexpr double assumed_disk_bandwidth = 1e9;
double disk_bandwidth(const ClusterProfile& profile);

// Bytes that a step reads from and writes to the file of a pipeline rank's states (memory.offload.optimizer "disk"):
// each once, or small moments and what lies beside them twice and once.
double disk_traffic(const PricedLayout& priced, std::int64_t pipeline_rank);
// How long that takes while all ranks of the node do it.
double disk_seconds(const PricedLayout& priced, std::int64_t pipeline_rank);

}  // namespace llmtrain
