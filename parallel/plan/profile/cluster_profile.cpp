// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/profile/cluster_profile.h"

#include <algorithm>
#include <cmath>

#include "core/base/file.h"
#include "core/recipe/rules/rules.h"
#include "parallel/plan/profile/named_file.h"

namespace llmtrain {
namespace {

void divide(ClusterProfile& profile, double ranks) {
  DeviceProfile& device = profile.device;
  PeakFlops& peak = device.peak_flops;
  // Everything that the ranks of one processor contend for is divided; latencies are not.
  for (double* rate : {&peak.fp32, &peak.tf32, &peak.bf16, &peak.fp16, &peak.fp8, &device.memory_bandwidth,
                       &device.memory_bytes, &device.pcie_bandwidth, &profile.node.link_bandwidth})
    *rate /= ranks;
  // A smaller result saturates fewer cores (outer_half enters squared); half_bytes ÷ bandwidth, the start-up time of a
  // pass, stays the same.
  profile.matrix.outer_half /= std::sqrt(ranks);
  profile.memory.half_bytes /= ranks;
}

}  // namespace

double peak_flops(const ClusterProfile& profile, const PrecisionRecipe& precision) {
  const PeakFlops& peak = profile.device.peak_flops;
  // A device without FP8 units is rated by its compute type, which is what it would run.
  if (multiplies_fp8(precision.fp8_level) && peak.fp8 > 0) return peak.fp8;
  switch (precision.compute) {
    case DataType::fp32:
      return precision.tf32 && peak.tf32 > 0 ? peak.tf32 : peak.fp32;
    case DataType::bf16:
      return peak.bf16;
    case DataType::fp16:
      return peak.fp16;
  }
  return peak.fp32;
}

ClusterProfile load_profile(const std::string& profile, const std::filesystem::path& folder) {
  std::string name = profile;
  // local.json is this machine's own measurement; cpu.json is the stated default until there is one.
  if (profile == "auto") name = std::filesystem::exists(folder / "local.json") ? "local" : "cpu";
  const std::filesystem::path file = named_file({"/cluster/profile", "profile"}, name, folder);
  return parse_profile(read_file(file), file.string());
}

Accuracy accuracy_of(const ClusterProfile& profile, const std::filesystem::path& folder) {
  if (profile.device.kind == DeviceKind::cpu) return {};
  return load_accuracy(folder / "accuracy.json", profile.program.name);
}

std::int64_t devices_per_node(const Recipe& recipe, const ClusterProfile& profile) {
  // Guards the cast below against absurd recipes, which the mesh's rules refuse later.
  constexpr double most_ranks_per_node = 1 << 24;
  if (recipe.cluster.devices_per_node) return *recipe.cluster.devices_per_node;
  if (profile.device.kind != DeviceKind::cpu) return profile.node.devices;
  const double ranks = std::ceil(ranks_asked_for(recipe).value_or(1) / static_cast<double>(recipe.cluster.nodes));
  if (ranks > most_ranks_per_node) return profile.node.devices;
  return std::max(profile.node.devices, static_cast<std::int64_t>(ranks));
}

ClusterProfile share_devices(const ClusterProfile& profile, const Mesh& mesh) {
  const std::int64_t ranks = std::min(mesh.world(), mesh.devices_per_node), devices = profile.node.devices;
  ClusterProfile shared = profile;
  if (profile.device.kind != DeviceKind::cpu || ranks <= devices) return shared;
  shared.ranks_per_device = static_cast<double>(ranks) / static_cast<double>(devices);
  shared.node.devices = ranks;
  divide(shared, shared.ranks_per_device);
  return shared;
}

}  // namespace llmtrain
