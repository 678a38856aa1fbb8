// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/calibration/calibrate.h"

#include <string_view>

#include "core/machine/host_memory.h"
#include "parallel/device/device.h"
#include "parallel/device/device_runtime.h"
#include "parallel/plan/profile/gpu_profile.h"
#include "parallel/runtime/calibration/links.h"
#include "parallel/runtime/calibration/passes.h"
#include "parallel/runtime/calibration/products.h"

namespace llmtrain {
namespace {

// The bundled profile that says what one machine cannot measure: adapters, what a long run meets and what programs'
// hosts take.
std::string base_name(const c10::Device& device) {
  if (device.is_cpu()) return "cpu";
  const std::string_view known = gpu_profile(describe_device(device));
  return std::string(known.empty() ? assumed_gpu_profile : known);
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
  // Parts of the data sheet's peaks, which the measured rates replace.
  profile.operators = nullptr;
  profile.sources.erase("operators");
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
