// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/offload_cost.h"

#include <algorithm>
#include <vector>

#include "core/graph/values.h"

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

double kept_bytes(const Partition& partition, std::size_t stage, double saved, const PassSetting& setting) {
  if (partition.mesh.pipeline > 1) return saved;
  const Graph& graph = *partition.graph;
  const std::vector<std::size_t>& incoming = partition.stages[stage].incoming;
  const auto reads = [&](std::size_t value) {
    return std::ranges::any_of(partition.stages[stage].blocks, [&](std::size_t block) {
      return std::ranges::count(graph.blocks[block].inputs, value) > 0;
    });
  };
  double kept = saved;
  for (const std::size_t value : incoming)
    if (reads(value)) kept -= value_bytes(graph.values[value], setting);
  for (const std::size_t value : partition.outgoing(stage))
    if (std::ranges::count(incoming, value) == 0) kept += value_bytes(graph.values[value], setting);
  return kept;
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
