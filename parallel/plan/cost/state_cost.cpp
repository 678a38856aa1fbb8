// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/state_cost.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "parallel/plan/cost/disk_cost.h"
#include "parallel/plan/cost/muon_cost.h"
#include "parallel/plan/cost/offload_cost.h"

namespace llmtrain {
namespace {

using Kind = StateGroup::Kind;

// The bytes of each ZeRO shard.
using ByShard = std::vector<TensorGradientShare>;

// Adds the elements [begin, end) of flat memory that is cut into parts of `part` to their shards, each as `bytes`.
template <class Sum>
void add_to_shards(ByShard& shards, Sum sum, FlatInterval elements, std::int64_t part, double bytes) {
  // Small parameters may be spread over thousands of shards, so that a division for each would take most of the time.
  std::int64_t shard = elements.begin / part;
  for (std::int64_t begin = elements.begin; begin < elements.end; ++shard) {
    const std::int64_t next = std::min(elements.end, (shard + 1) * part);
    sum(shards[static_cast<std::size_t>(shard)]) += bytes * static_cast<double>(next - begin);
    begin = next;
  }
}

// What is summed before it is cut into shards, as gradients are that become FP8 then.
template <class Sum>
void add_to_all(ByShard& shards, Sum sum, FlatInterval elements, double bytes) {
  for (TensorGradientShare& shard : shards) sum(shard) += bytes * static_cast<double>(elements.count());
}

// Walks a group's flat memory: its parameters back to back, cut into equal parts as at run time (ShardedParameters), so
// that plan and run agree on which rank sums what. Of experts nothing is summed.
void add_sums(const Partition& partition, const StateGroup& group, ByShard& shards) {
  if (group.kind != Kind::dense) return;
  const Graph& graph = *partition.graph;
  const std::int64_t part =
      std::max<std::int64_t>(1, FlatShards{group.elements(), static_cast<std::int64_t>(shards.size())}.part());
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < group.parameters.size(); ++i) {
    const FlatInterval elements{begin, begin + group.sizes[i]};
    const Parameter& parameter = graph.parameters[group.parameters[i]];
    const GradientSum sum = gradient_sum(parameter, partition.mesh.tensor, partition.recipe.parallel.sequence);
    const double bytes = group.types.gradient_bytes();
    begin = elements.end;
    if (sum == GradientSum::none) continue;
    const auto whole_group = [](TensorGradientShare& share) -> double& { return share.whole_group; };
    const auto copies = [number = copies_of(parameter.split, partition.mesh.tensor)](
                            TensorGradientShare& share) -> double& { return share.copies[number]; };
    if (sum == GradientSum::tensor_group) add_to_shards(shards, whole_group, elements, part, bytes);
    if (sum == GradientSum::copies && group.types.accumulator)
      add_to_all(shards, copies, elements, element_bytes(*group.types.accumulator));
    else if (sum == GradientSum::copies)
      add_to_shards(shards, copies, elements, part, bytes);
  }
}

void add_group(const Partition& partition, const StateGroup& group, ByShard& shards) {
  add_sums(partition, group, shards);
  // Ranks agree on each tensor's maxima of weights, gradients and small moments, and on its count of saturated sums.
  if (!group.is_fp8) return;
  const double numbers = 3 + group.types.scaled_moments();
  const auto maxima = group.kind == Kind::experts ? &TensorGradientShare::expert_maxima : &TensorGradientShare::maxima;
  for (TensorGradientShare& shard : shards)
    shard.*maxima += numbers * element_bytes(ElementType::float32) * static_cast<double>(group.parameters.size());
}

double tensor_gradient_seconds(const PricedLayout& priced, const TensorGradientShare& share) {
  const CollectiveCost& collectives = priced.collectives;
  const auto agreement = [&](double bytes, const RankGroup& ranks) {
    return bytes > 0 ? collectives.all_reduce(bytes, ranks) : 0;
  };
  double sums = collectives.all_reduce(share.whole_group, tensor_group(priced.mesh()));
  for (const auto& [copies, bytes] : share.copies)
    sums += collectives.all_reduce(bytes, copies_group(priced.partition, copies));
  return sums + agreement(share.maxima, tensor_group(priced.mesh())) +
         agreement(share.expert_maxima, expert_parts_group(priced.mesh()));
}

// The types that all parameters are taken to have: the few that keep theirs at FP8 levels are neglected.
StateTypes most_states(const PrecisionRecipe& precision) {
  return stores_fp8(precision.fp8_level) ? fp8_state_types(precision) : state_types(precision);
}

StateTypes most_states(const PricedLayout& priced) {
  const StateTypes types = most_states(priced.state_precision());
  const bool is_narrow = priced.program().memory.narrow_states && !stores_fp8(priced.state_precision().fp8_level);
  return is_narrow ? narrow_states(types) : types;
}

// Bytes per parameter that the update writes in addition to the master weight: weights that are their own master are
// written only once.
double moved_weight_bytes(const StateTypes& types) { return types.master ? types.weight_bytes() : 0; }

// The step that the host makes (parallel/shard/states/offload/host_update.h): gradients arrive, it updates, and new
// weights leave, all at once, so that the slowest of the three counts. What passes through is written to the host's
// memory and read there once; weights that stay there are only written, and gradients that have come before are only
// read. The pass that finds the scales of small moments has no weights, and writes no states.
double host_update_seconds(const PricedLayout& priced, double elements) {
  const StateTypes types = most_states(priced);
  const double states = (types.master ? types.master_bytes() : types.weight_bytes()) + types.moment_bytes();
  const bool stay = priced.recipe().memory.offload.weights, have_come = priced.recipe().memory.offload.gradients;
  const double gradients = have_come ? 0 : types.gradient_bytes();
  const double passing = types.gradient_bytes() + gradients;
  const double written = states + (stay ? moved_weight_bytes(types) : 2 * types.weight_bytes());
  const double one_way = stay ? gradients : std::max(gradients, types.weight_bytes());
  const ClusterProfile& profile = priced.profile;
  const auto sharing = static_cast<double>(std::min(priced.mesh().world(), profile.node.devices));
  const double of_memory = profile.host.memory_bandwidth > 0 ? sharing / profile.host.memory_bandwidth : 0;
  const auto pass = [&](double in_memory, double over_pcie) {
    return elements * std::max(in_memory * of_memory, over_pcie / profile.device.pcie_bandwidth);
  };
  // The norm and clearing stay with the device.
  const double on_device = priced.roofline.pass(2 * types.gradient_bytes() * elements).seconds;
  return on_device + pass(states + written + passing, one_way) +
         (types.passes() - 1) * pass(states + passing, gradients);
}

std::int64_t trained_tensors(const Graph& graph, const Block& block) {
  return std::ranges::count_if(block.parameters, [&](std::size_t index) { return !graph.parameters[index].is_frozen; });
}

// Elements of a rank's shards that are updated in one place, and how many tensors they come from.
struct Updated {
  double elements = 0, tensors = 0;
};

// What is updated of the groups that stay on the device, or of the others. `trained`: trained_tensors() of the blocks.
Updated updated_of(const PricedLayout& priced, std::size_t rank, bool stays, BlockCache<std::int64_t>& trained) {
  const Partition& partition = priced.partition;
  double dense = 0, experts = 0;
  Updated updated;
  for (std::size_t stage = rank; stage < partition.stages.size();
       stage += static_cast<std::size_t>(priced.mesh().pipeline)) {
    for (const StateGroup& group : partition.groups[stage]) {
      if (group.is_frozen || group.is_muon || group.stays != stays) continue;
      (group.kind == Kind::experts ? experts : dense) += static_cast<double>(group.elements());
    }
    if (partition.shape.is_resident(static_cast<std::int32_t>(stage)) != stays) continue;
    // Counts whole tensors: every rank launches the same kernels, however small its shards.
    for (const std::size_t block : partition.stages[stage].blocks)
      updated.tensors += static_cast<double>(
          trained.of(block, [&] { return trained_tensors(*partition.graph, partition.graph->blocks[block]); }));
  }
  const auto shard = [](double all, const StateRanks& ranks) {
    return ranks.zero_stage > 0 ? all / static_cast<double>(ranks.shards.ranks) : all;
  };
  updated.elements = shard(dense, priced.dense_ranks) + shard(experts, priced.expert_ranks);
  return updated;
}

double device_update_seconds(const PricedLayout& priced, const Updated& updated) {
  const double bytes =
      updated.elements * optimizer_bytes_per_parameter(most_states(priced)) * priced.program().traffic.optimizer;
  const double stated = priced.program().host.tensor_seconds;
  return priced.roofline.pass(bytes).seconds +
         updated.tensors * (stated > 0 ? stated : priced.profile.host.tensor_seconds);
}

double update_seconds(const PricedLayout& priced, std::size_t rank, BlockCache<std::int64_t>& trained) {
  const Updated leaving = updated_of(priced, rank, false, trained), staying = updated_of(priced, rank, true, trained);
  // Goes on beside the update, whose pieces it brings and takes away.
  const double of_disk = disk_seconds(priced, static_cast<std::int64_t>(rank));
  const OffloadRecipe& offload = priced.recipe().memory.offload;
  const bool is_cpu = priced.setting().program.device == ComputeDevice::cpu;
  const SwappedStates swapped = swapped_states(priced.partition, static_cast<std::int64_t>(rank));
  if (swapped.bytes() > 0)
    return device_update_seconds(priced, leaving) + device_update_seconds(priced, staying) +
           swapped.bytes() / priced.profile.device.pcie_bandwidth;
  const bool is_host = offload.optimizer == StatesPlace::host || (offload.optimizer == StatesPlace::disk && !is_cpu);
  const double of_leaving =
      is_host ? host_update_seconds(priced, leaving.elements) : device_update_seconds(priced, leaving);
  const double of_staying = staying.elements > 0 ? device_update_seconds(priced, staying) : 0;
  return std::max(of_disk, of_leaving) + of_staying;
}

}  // namespace

std::vector<TensorGradientShare> tensor_gradient_shares(const Partition& partition) {
  const auto ranks = static_cast<std::size_t>(partition.mesh.pipeline);
  std::vector<TensorGradientShare> fullest(ranks);
  const ShardDegrees degrees = shard_degrees(partition.mesh);
  if (degrees.tensor * degrees.expert * degrees.expert_tensor == 1) return fullest;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    ByShard shards(static_cast<std::size_t>(partition.zero_stage() > 0 ? shard_group(partition.mesh).ranks : 1));
    for (std::size_t stage = rank; stage < partition.stages.size(); stage += ranks)
      for (const StateGroup& group : partition.groups[stage]) add_group(partition, group, shards);
    // The fullest shard is taken: all ranks of the group wait for it.
    for (const TensorGradientShare& shard : shards) {
      fullest[rank].whole_group = std::max(fullest[rank].whole_group, shard.whole_group);
      for (const auto& [copies, bytes] : shard.copies)
        fullest[rank].copies[copies] = std::max(fullest[rank].copies[copies], bytes);
      fullest[rank].maxima = std::max(fullest[rank].maxima, shard.maxima);
      fullest[rank].expert_maxima = std::max(fullest[rank].expert_maxima, shard.expert_maxima);
    }
  }
  return fullest;
}

RankGroup copies_group(const Partition& partition, std::int64_t copies) {
  RankGroup group = tensor_group(partition.mesh);
  group.ranks = copies;
  group.inside_node = std::min(group.inside_node, group.ranks);
  return group;
}

std::vector<SharedGradients> shared_gradients(const Partition& partition) {
  const Mesh& mesh = partition.mesh;
  const std::int64_t stride = mesh.world() / mesh.pipeline;
  const auto node_of = [&](std::size_t rank) {
    return static_cast<std::int64_t>(rank) * stride / mesh.devices_per_node;
  };
  std::vector<SharedGradients> shared;
  for (std::size_t stage = 0; stage < partition.stages.size(); ++stage)
    for (const StateGroup& group : partition.groups[stage]) {
      if (!group.is_shared() || !group.counts_on(stage)) continue;
      const std::int64_t ranks = std::ssize(group.holders);
      const bool together = node_of(group.holders.front()) == node_of(group.holders.back());
      shared.push_back({&group,
                        {.ranks = ranks, .stride = stride, .inside_node = together ? ranks : 1},
                        group.types.gradient_bytes() * static_cast<double>(group.elements())});
    }
  return shared;
}

double optimizer_bytes_per_parameter(const PrecisionRecipe& precision) {
  return optimizer_bytes_per_parameter(most_states(precision));
}

double optimizer_bytes_per_parameter(const StateTypes& types) {
  const double states = (types.master ? types.master_bytes() : types.weight_bytes()) + types.moment_bytes();
  // The scales of small moments need a pass before that which writes: it reads states and gradients once more.
  const double more_reads = types.passes() - 1;
  // Gradients are passed over three times: norm, update, clearing for the next step. States are read and written.
  return (3 + more_reads) * types.gradient_bytes() + (2 + more_reads) * states + moved_weight_bytes(types);
}

std::vector<double> optimizer_seconds(const PricedLayout& priced) {
  const std::vector<TensorGradientShare> shares = tensor_gradient_shares(priced.partition);
  std::vector<double> seconds = muon_seconds(priced);
  BlockCache<std::int64_t> trained(priced.graph());
  for (std::size_t rank = 0; rank < shares.size(); ++rank)
    seconds[rank] += update_seconds(priced, rank, trained) + tensor_gradient_seconds(priced, shares[rank]);
  for (const SharedGradients& shared : shared_gradients(priced.partition)) {
    if (shared.bytes == 0) continue;
    const double exchange = priced.collectives.all_reduce(shared.bytes, shared.ranks);
    for (const std::size_t rank : shared.group->holders) seconds[rank] += exchange;
  }
  return seconds;
}

std::vector<double> seconds_by_stage(const Partition& partition, const std::vector<double>& of_ranks) {
  const auto bytes_of = [&](std::size_t stage) {
    double bytes = 0;
    for (const StateGroup& group : partition.groups[stage]) {
      const StateTypes& types = group.types;
      bytes +=
          (types.weight_bytes() + types.master_bytes() + types.moment_bytes()) * static_cast<double>(group.elements());
    }
    return bytes;
  };
  const std::size_t ranks = of_ranks.size();
  std::vector<double> bytes(ranks), seconds;
  for (std::size_t stage = 0; stage < partition.groups.size(); ++stage) bytes[stage % ranks] += bytes_of(stage);
  for (std::size_t stage = 0; stage < partition.groups.size(); ++stage) {
    const double all = bytes[stage % ranks];
    seconds.push_back(all > 0 ? of_ranks[stage % ranks] * bytes_of(stage) / all : 0);
  }
  return seconds;
}

}  // namespace llmtrain
