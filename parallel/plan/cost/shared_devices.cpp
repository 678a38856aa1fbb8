// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/shared_devices.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace llmtrain {
namespace {

// In floating point, as make_mesh() has yet to refuse what is beyond all sense.
std::optional<double> ranks_asked_for(const Recipe& recipe) {
  const ParallelRecipe& parallel = recipe.parallel;
  if (recipe.launch.ranks) return static_cast<double>(*recipe.launch.ranks);
  if (!parallel.data) return std::nullopt;
  return static_cast<double>(parallel.tensor) * static_cast<double>(parallel.context) *
         static_cast<double>(parallel.pipeline) * static_cast<double>(*parallel.data);
}

double ranks_of_node(const Recipe& recipe) {
  const auto& most = recipe.cluster.devices_per_node;
  const auto ranks = ranks_asked_for(recipe);
  if (!ranks) return static_cast<double>(most.value_or(1));
  const double even = std::ceil(*ranks / static_cast<double>(recipe.cluster.nodes));
  return most ? std::min(even, static_cast<double>(*most)) : even;
}

void divide(ClusterProfile& profile, double ranks) {
  DeviceProfile& device = profile.device;
  PeakFlops& peak = device.peak_flops;
  for (double* rate : {&peak.fp32, &peak.tf32, &peak.bf16, &peak.fp16, &peak.fp8, &device.memory_bandwidth,
                       &device.memory_bytes, &device.pcie_bandwidth, &profile.node.link_bandwidth})
    *rate /= ranks;
  // Fewer cores are busy with a smaller result; what a pass needs to start stays the same time.
  profile.matrix.outer_half /= std::sqrt(ranks);
  profile.memory.half_bytes /= ranks;
}

}  // namespace

ClusterProfile share_devices(const ClusterProfile& profile, const Recipe& recipe) {
  constexpr double most_ranks_of_node = 1 << 24;
  const double ranks = ranks_of_node(recipe);
  const auto devices = static_cast<double>(profile.node.devices);
  ClusterProfile shared = profile;
  if (profile.device.kind != DeviceKind::cpu || ranks <= devices || ranks > most_ranks_of_node) return shared;
  shared.ranks_per_device = profile.ranks_per_device * ranks / devices;
  shared.node.devices = static_cast<std::int64_t>(ranks);
  divide(shared, ranks / devices);
  return shared;
}

}  // namespace llmtrain
