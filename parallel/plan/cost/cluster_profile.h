// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain {

// What a cluster is made of and how much of it real programs get: a file in recipes/clusters, or one that `llmtrain
// calibrate` writes. It knows no model. Times in seconds, sizes in bytes, rates in FLOP/s and bytes/s; a bandwidth is
// that of one direction.

// Dense rates that the maker states.
struct PeakFlops {
  double fp32 = 0;
  double tf32 = 0;  // 0: the device has none
  double bf16 = 0;
  double fp16 = 0;
  double fp8 = 0;  // 0: the device has none
};

struct DeviceProfile {
  DeviceKind kind = DeviceKind::cuda;  // cpu or cuda: which operators run
  double memory_bytes = 0;             // 0: not stated
  double memory_bandwidth = 0;
  PeakFlops peak_flops;
  double kernel_seconds = 0;  // from the end of one kernel to the start of the next
  double pcie_bandwidth = 0;  // to the host's memory
};

// How much of the peak a matrix product with an inner dimension k and r results gets, batches counted together:
// peak_fraction · k / (k + inner_half) · r / (r + outer_half²). The first factor is the pipeline that each tile of
// results fills and drains, the second the share of the device's processors that have a tile.
struct MatrixProfile {
  double peak_fraction = 0;
  double inner_half = 0;
  double outer_half = 0;
  double fp8_peak_fraction = 0;  // in place of peak_fraction, of the FP8 peak; 0: the device has none
};

// Fused attention: parts of the peak that causal attention gets, counted without the masked half.
struct AttentionProfile {
  double forward_fraction = 0;
  double backward_fraction = 0;
};

// A pass over memory gets fraction · bytes / (bytes + half_bytes) of the bandwidth.
struct MemoryProfile {
  double fraction = 0;
  double half_bytes = 0;
};

// The program around the kernels. Where a framework's host needs longer to start operators than the device to run them,
// the device waits.
struct HostProfile {
  double operator_seconds = 0;     // to start one operator of a forward
  double transfer_seconds = 0;     // a send or receive between stages that goes beside the passes, whatever its size
  double micro_batch_seconds = 0;  // a micro-batch with its loss: data, bookkeeping, synchronisation
  double tensor_seconds = 0;       // a parameter tensor in the optimizer step
  double step_seconds = 0;         // once a step
};

struct CollectivePoint {
  double bytes = 0;
  double seconds = 0;
};

// Measured all-reduces of this many ranks inside one node, by growing bytes.
struct CollectiveTable {
  std::int64_t ranks = 0;
  std::vector<CollectivePoint> points;
};

struct NodeProfile {
  std::int64_t devices = 1;
  double link_bandwidth = 0;  // of one device to the others of its node
  double link_efficiency = 0;
  double latency_seconds = 0;
  std::vector<CollectiveTable> all_reduce;  // in place of link bandwidth and latency for these numbers of ranks
};

struct NetworkProfile {
  std::int64_t adapters = 1;  // per node
  double adapter_bandwidth = 0;
  double efficiency = 0;                 // of all adapters together, all-reduce of large buckets
  double gather_efficiency = 0;          // all-gather and reduce-scatter of sharded weights (ZeRO-3)
  double point_to_point_efficiency = 0;  // one rank's share of the adapters
  double latency_seconds = 0;
};

struct ClusterProfile {
  std::string name;
  std::string description;
  DeviceProfile device;
  MatrixProfile matrix;
  AttentionProfile attention;
  MemoryProfile memory;
  HostProfile host;
  NodeProfile node;
  NetworkProfile network;
  double compute_slowdown = 0;                  // part of a collective's time that it takes from the compute beside it
  std::optional<double> price_per_device_hour;  // an assumption, in any currency
  std::map<std::string, std::string> sources;   // by section: where the numbers come from
  double ranks_per_device = 1;                  // in no file: share_devices() sets it
};

// The dense peak of matrix products in that type, FP8's at FP8 levels: what MFU and HFU divide by.
double peak_flops(const ClusterProfile& profile, const PrecisionRecipe& precision);

// Reads a profile from JSON text. Throws Error(bad_recipe) with every problem, a line each: `<file>: <JSON pointer>:
// …`: unknown and missing keys, wrong types, values out of range, tables that do not grow.
ClusterProfile parse_profile(std::string_view text, const std::string& file);

// The profile that `cluster.profile` of a recipe names: a file (a path with a slash or ending in .json), a name in
// `folder`, or "auto": local.json in `folder`, which `calibrate` writes, and cpu where there is none. Throws
// Error(bad_recipe) for a name that is not there, with the nearest one, and Error(missing_input) for a file.
ClusterProfile load_profile(const std::string& profile, const std::filesystem::path& folder);

// Names of the profiles in a folder, sorted. Empty where there is no folder.
std::vector<std::string> profile_names(const std::filesystem::path& folder);

// JSON that parse_profile() reads.
nlohmann::ordered_json to_json(const ClusterProfile& profile);

}  // namespace llmtrain
