// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/offload_cost.h"

#include <algorithm>

namespace llmtrain {
namespace {

// What the host has of a rank's weights: with ZeRO-3 the rank's shard, else all.
double weight_bytes(const Partition& partition, std::size_t stage) {
  double bytes = 0;
  for (const StateGroup& group : partition.groups[stage])
    bytes += group.types.weight_bytes() * static_cast<double>(group.zero_stage >= 3 ? group.shard() : group.whole());
  return bytes;
}

}  // namespace

double kept_bytes(const Partition& partition, std::size_t stage, double saved, double boundary) {
  if (partition.mesh.pipeline > 1) return saved;
  return saved - (stage > 0 ? boundary : 0) + (partition.is_last(stage) ? 0 : boundary);
}

void add_offload(const PricedLayout& priced, std::size_t stage, double kept, StageCost& cost) {
  const OffloadRecipe& offload = priced.recipe().memory.offload;
  const double bandwidth = priced.profile.device.pcie_bandwidth;
  const double weights = offload.weights ? weight_bytes(priced.partition, stage) : 0;
  const double activations = offload.activations ? kept : 0;
  // PCIe is full duplex: in the forward weights arrive while activations leave, in the backward both arrive.
  cost.forward.seconds = std::max(cost.forward.seconds, std::max(weights, activations) / bandwidth);
  cost.backward.seconds = std::max(cost.backward.seconds, (weights + activations) / bandwidth);
}

}  // namespace llmtrain
