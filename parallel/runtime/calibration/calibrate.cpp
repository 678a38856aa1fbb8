// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/calibration/calibrate.h"

#include <array>
#include <string_view>

#include "core/machine/host_memory.h"
#include "parallel/device/device.h"
#include "parallel/device/device_runtime.h"
#include "parallel/runtime/calibration/links.h"
#include "parallel/runtime/calibration/passes.h"
#include "parallel/runtime/calibration/products.h"

namespace llmtrain {
namespace {

// The bundled profile of a GPU by what its name contains, for what one machine cannot measure: adapters, what a long
// run meets and what programs' hosts take. Of GPUs that nobody has profiled the last one's.
std::string base_name(const c10::Device& device) {
  constexpr std::array<std::array<std::string_view, 2>, 5> names{
      {{"H200", "h200"}, {"B200", "b200"}, {"A100", "a100-80gb"}, {"V100", "v100-32gb"}, {"", "h100-sxm-80gb"}}};
  if (device.is_cpu()) return "cpu";
  const std::string own = describe_device(device);
  constexpr std::int64_t between_a100s = std::int64_t{60} << 30;
  for (const auto& [part, profile] : names) {
    if (own.find(part) == std::string::npos) continue;
    const bool is_small = runtime_of(device).memory(device).total < between_a100s;
    return part == "A100" && is_small ? "a100-40gb" : std::string(profile);
  }
  return "h100-sxm-80gb";
}

void complete_cpu(ClusterProfile& profile) {
  profile.device.memory_bytes = static_cast<double>(host_memory().total);
  profile.node.devices = 1;
  // An assumption, as sources["node"] states: a transfer between processes copies through shared memory.
  profile.node.link_bandwidth = profile.device.memory_bandwidth / 4;
  profile.sources["node"] = "ranks of one machine: a quarter of the memory bandwidth";
}

void complete_gpu(const Stopwatch& stopwatch, const std::string& base, ClusterProfile& profile) {
  const c10::Device& device = stopwatch.device();
  profile.device.memory_bytes = static_cast<double>(runtime_of(device).memory(device).total);
  const int gpus = gpu_count();
  profile.node.devices = gpus;
  measure_host_copies(stopwatch, profile);
  const std::string assumed = "as in " + base + ", not measured";
  profile.node.all_reduce.clear();
  profile.sources["node"] = measure_links(stopwatch, gpus, profile)
                                ? "all-reduces measured; bandwidth and latency of others " + assumed
                                : assumed;
  for (const char* section : {"network", "operation", "compute_slowdown", "price_per_device_hour"})
    profile.sources[section] = assumed;
}

}  // namespace

ClusterProfile calibrate(DeviceKind kind, const LoadProfile& load, Effort effort) {
  const c10::Device device = choose_device(kind);
  use_device(device);
  const Stopwatch stopwatch(device, thoroughness_of(effort));
  const std::string base = base_name(device);
  ClusterProfile profile = load(base);
  profile.name = "this-machine";
  profile.description =
      (effort == Effort::quick ? "Measured in two seconds on " : "Measured by llmtrain calibrate on ") +
      describe_device(device);
  profile.device.kind = device.is_cpu() ? DeviceKind::cpu : DeviceKind::cuda;
  measure_matrix(stopwatch, profile);
  measure_memory(stopwatch, profile);
  measure_attention(stopwatch, profile);
  for (const char* section : {"device", "matrix", "memory", "attention", "host"}) profile.sources[section] = "measured";
  if (device.is_cpu()) {
    complete_cpu(profile);
  } else {
    complete_gpu(stopwatch, base, profile);
  }
  return profile;
}

}  // namespace llmtrain
