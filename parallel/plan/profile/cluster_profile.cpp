// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/profile/cluster_profile.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/recipe/rules/rules.h"
#include "parallel/plan/profile/named_file.h"
#include "parallel/plan/profile/profile_reader.h"

namespace llmtrain {
namespace {

void divide(ClusterProfile& profile, double ranks) {
  DeviceProfile& device = profile.device;
  PeakFlops& peak = device.peak_flops;
  // Everything that the ranks of one processor contend for is divided; latencies are not.
  for (double* rate : {&peak.fp32, &peak.tf32, &peak.bf16, &peak.fp16, &peak.fp8, &peak.fp4, &device.memory_bandwidth,
                       &device.memory_bytes, &device.pcie_bandwidth, &profile.node.link_bandwidth})
    *rate /= ranks;
  // A smaller result saturates fewer cores (outer_half enters squared); half_bytes ÷ bandwidth, the start-up time of a
  // pass, stays the same.
  profile.matrix.outer_half /= std::sqrt(ranks);
  profile.memory.half_bytes /= ranks;
}

// How far plans of processes on a processor were from their largest resident sets, at most, in the recipes that no
// constant was taken from (docs/performance.md#memory).
const PlanError process_error{.error = 0.05, .rows = 15, .program = "llmtrain", .devices = 2};

// What `own` states, and of the rest what `base` does: keys of sections one by one, a list or a table as a whole.
void fill_from(const Json& base, Json& own) {
  for (const auto& [key, value] : base.items()) {
    if (!own.contains(key)) {
      own[key] = value;
    } else if (own[key].is_object() && value.is_object()) {
      fill_from(value, own[key]);
    }
  }
}

// The profile's JSON, filled from the one that it is based on, and so on. `below`: the files that lead here.
Json read_chain(const std::filesystem::path& file, const std::filesystem::path& folder,
                std::vector<std::string> below) {
  Json root = parse_profile_text(read_file(file), file.string());
  if (!root.is_object() || !root.contains("based_on")) return root;
  const auto refuse = [&](const std::string& what) {
    throw Error(ExitCode::bad_recipe, file.string() + ": /based_on: " + what);
  };
  if (!root["based_on"].is_string()) refuse("must be a profile's name or file");
  const std::string name = root["based_on"].get<std::string>();
  root.erase("based_on");
  below.push_back(file.lexically_normal().string());
  const std::filesystem::path base = named_file({"/based_on", "profile"}, name, folder);
  if (std::ranges::count(below, base.lexically_normal().string()) > 0)
    refuse('"' + name + "\" is based on this one; begin with a profile that is based on none");
  const Json base_root = read_chain(base, folder, std::move(below));
  // Its problems are its own, and not those of the profiles that are based on it.
  profile_of(base_root, base.string());
  fill_from(base_root, root);
  return root;
}

// The base of a profile, or of one that it is based on, which states other peaks than its base and measures nothing.
std::string rates_borrowed_from(const std::filesystem::path& file, const std::filesystem::path& folder) {
  const Json root = parse_profile_text(read_file(file), file.string());
  if (!root.contains("based_on")) return "";
  const auto base = root["based_on"].get<std::string>();
  const Json device = root.value("device", Json::object());
  const bool has_own_rates = root.contains("matrix") || root.contains("operators");
  if (device.contains("peak_flops") || device.contains("memory_bandwidth")) return has_own_rates ? "" : base;
  return rates_borrowed_from(named_file({"/based_on", "profile"}, base, folder), folder);
}

ClusterProfile read_profile(const std::filesystem::path& file, const std::filesystem::path& folder) {
  ClusterProfile profile = profile_of(read_chain(file, folder, {}), file.string());
  profile.borrowed_from = rates_borrowed_from(file, folder);
  return profile;
}

}  // namespace

double small_peak_flops(const ClusterProfile& profile, const PrecisionRecipe& precision) {
  const PeakFlops& peak = profile.device.peak_flops;
  return precision.product_format == ProductFormat::fp8 ? peak.fp8 : peak.fp4;
}

double peak_flops(const ClusterProfile& profile, const PrecisionRecipe& precision) {
  const PeakFlops& peak = profile.device.peak_flops;
  // A device without FP8 or FP4 units is rated by its compute type, which is what it would run.
  const double small = small_peak_flops(profile, precision);
  if (multiplies_fp8(precision.fp8_level) && small > 0) return small;
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
  return read_profile(named_file({"/cluster/profile", "profile"}, name, folder), folder);
}

Accuracy accuracy_of(const ClusterProfile& profile, const std::filesystem::path& folder) {
  if (profile.device.kind == DeviceKind::cpu) {
    Accuracy of_processes;
    if (profile.device.has_hard_memory) of_processes.memory = process_error;
    return of_processes;
  }
  const Accuracy accuracy = load_accuracy(folder / "accuracy.json", profile.program.name);
  return profile.borrowed_from.empty() ? accuracy : with_borrowed_rates(accuracy, profile.borrowed_from);
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
