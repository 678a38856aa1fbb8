// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/disk_cost.h"

#include <algorithm>

#include "parallel/layout/state_pieces.h"

namespace llmtrain {

double disk_bandwidth(const ClusterProfile& profile) {
  return profile.host.disk_bandwidth > 0 ? profile.host.disk_bandwidth : assumed_disk_bandwidth;
}

double disk_traffic(const PricedLayout& priced, std::int64_t pipeline_rank) {
  const bool is_gpu = priced.setting().program.device == ComputeDevice::cuda;
  return static_cast<double>(state_file(priced.partition, pipeline_rank, is_gpu).traffic);
}

double disk_seconds(const PricedLayout& priced, std::int64_t pipeline_rank) {
  const auto sharing = static_cast<double>(std::min(priced.mesh().world(), priced.mesh().devices_per_node));
  return disk_traffic(priced, pipeline_rank) * sharing / disk_bandwidth(priced.profile);
}

}  // namespace llmtrain
