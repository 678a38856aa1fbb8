// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/offload_cost.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/graph/operators/operators.h"
#include "core/graph/values.h"

namespace llmtrain {
namespace {

// What the host has of a rank's weights.
double weight_bytes(const Partition& partition, std::size_t stage) {
  double bytes = 0;
  for (const StateGroup& group : partition.groups[stage])
    if (group.zero_stage >= 3 && !group.stays) bytes += group.types.weight_bytes() * static_cast<double>(group.shard());
  return bytes;
}

// Whether a block of these keeps the value for its backward.
bool is_kept(const OperatorLists& operators, std::size_t begin, std::size_t end, std::size_t value) {
  for (std::size_t block = begin; block < end; ++block) {
    const std::vector<std::size_t>& inputs = operators.graph().blocks[block].inputs;
    const auto input = std::ranges::find(inputs, value);
    if (input == inputs.end()) continue;
    const auto index = static_cast<std::size_t>(input - inputs.begin());
    if (kept_input_bytes(operators.of(block), operators.recompute_of(block), index) > 0) return true;
  }
  return false;
}

// Elements that are brought together (SwappedUpdate::piece).
constexpr double swapped_piece = 1 << 22;

void add_swapped(const Partition& partition, const StateGroup& group, SwappedStates& swapped) {
  const StateTypes& types = group.types;
  // Muon's matrices come one by one (muon_cost.h).
  if (!types.is_trained || group.stays || group.is_muon) return;
  const double owned = owned_elements(group);
  const double states = (types.master ? types.master_bytes() : types.weight_bytes()) + types.moment_bytes();
  const double gradients = evicted_bytes(partition, group) > 0 ? types.gradient_bytes() : 0;
  const double rounded = types.master ? types.weight_bytes() : 0;
  swapped.incoming += types.passes() * (states + gradients) * owned;
  swapped.outgoing += (states + rounded) * owned;
  swapped.workspace = std::max(swapped.workspace, (states + gradients + rounded) * std::min(swapped_piece, owned));
}

}  // namespace

double kept_bytes(const Partition& partition, const OperatorLists& operators, std::size_t stage, double saved) {
  if (partition.mesh.pipeline > 1) return saved;
  const Graph& graph = operators.graph();
  const std::vector<std::size_t>&blocks = partition.stages[stage].blocks, &incoming = partition.stages[stage].incoming;
  const std::span<const std::size_t> outgoing = partition.outgoing(stage);
  const auto has = [](std::span<const std::size_t> values, std::size_t value) {
    return std::ranges::count(values, value) > 0;
  };
  const auto keeps_here = [&](std::size_t value) {
    return !blocks.empty() && is_kept(operators, blocks.front(), blocks.back() + 1, value);
  };
  const auto ends_here = [&](std::size_t value) {
    return !has(outgoing, value) && !is_kept(operators, 0, graph.blocks.size(), value);
  };
  double kept = saved;
  for (const std::size_t value : incoming)
    if (keeps_here(value) || ends_here(value)) kept -= value_bytes(graph.values[value], operators.setting());
  for (const std::size_t value : outgoing)
    if (!has(incoming, value) && !keeps_here(value)) kept += value_bytes(graph.values[value], operators.setting());
  return kept;
}

double owned_elements(const StateGroup& group) {
  return static_cast<double>(group.zero_stage >= 1 ? group.shard() : group.whole());
}

double evicted_bytes(const Partition& partition, const StateGroup& group) {
  if (!partition.shape.evicts_gradients || group.stays) return 0;
  if (!group.types.is_trained || group.is_reduced_last(partition.shape)) return 0;
  return group.types.gradient_bytes() * owned_elements(group);
}

double evicted_bytes(const Partition& partition, std::int64_t pipeline_rank) {
  double bytes = 0;
  for (auto stage = static_cast<std::size_t>(pipeline_rank); stage < partition.stages.size();
       stage += static_cast<std::size_t>(partition.mesh.pipeline))
    for (const StateGroup& group : partition.groups[stage]) bytes += evicted_bytes(partition, group);
  return bytes;
}

SwappedStates swapped_states(const Partition& partition, std::int64_t pipeline_rank) {
  SwappedStates swapped;
  if (!partition.recipe.memory.swaps_states()) return swapped;
  for (auto stage = static_cast<std::size_t>(pipeline_rank); stage < partition.stages.size();
       stage += static_cast<std::size_t>(partition.mesh.pipeline))
    for (const StateGroup& group : partition.groups[stage]) add_swapped(partition, group, swapped);
  return swapped;
}

void add_offload(const PricedLayout& priced, std::size_t stage, double kept, double update_before, StageCost& cost) {
  const OffloadRecipe& offload = priced.recipe().memory.offload;
  const double bandwidth = priced.profile.device.pcie_bandwidth;
  const double weights = offload.weights ? weight_bytes(priced.partition, stage) : 0;
  const double activations = offload.activations ? kept : 0;
  if (offload.activations && !priced.partition.stages[stage].blocks.empty()) {
    // The forward ends when all have left, and the backward begins with the last block's.
    const std::size_t last = priced.partition.stages[stage].blocks.back();
    const double alone = saved_bytes(priced.operators.of(last), priced.operators.recompute_of(last)) / bandwidth;
    cost.forward.seconds += alone;
    cost.backward.seconds += alone;
  }
  cost.gather_seconds += weights / bandwidth;
  for (const StateGroup& group : priced.partition.groups[stage])
    cost.evict_seconds += evicted_bytes(priced.partition, group) / bandwidth;
  // PCIe is full duplex: in the forward weights arrive while activations leave. In the backward both arrive, and
  // activations of a micro-batch wait for its share of the weights of the next stage, of which a part has come.
  const double left = std::max(0.0, weights - update_before * bandwidth);
  const double share = left / priced.partition.shape.gather_group();
  cost.forward.seconds = std::max(cost.forward.seconds, activations / bandwidth);
  if (activations > 0) cost.backward.seconds = std::max(cost.backward.seconds, (share + activations) / bandwidth);
}

}  // namespace llmtrain
