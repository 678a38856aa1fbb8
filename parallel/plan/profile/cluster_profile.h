// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/recipe.h"
#include "parallel/layout/mesh.h"
#include "parallel/plan/accuracy/accuracy.h"
#include "parallel/plan/profile/operator_tables.h"
#include "parallel/plan/profile/program.h"

namespace llmtrain {

// The hardware of a cluster and the fraction of it that real programs reach: a file in recipes/clusters, or one that
// `llmtrain calibrate` writes. It is independent of any model. Times are in seconds, sizes in bytes, rates in FLOP/s
// and bytes/s; bandwidths are per direction.

// Dense rates from the vendor's data sheet.
struct PeakFlops {
  double fp32 = 0;
  double tf32 = 0;  // 0: the device has none
  double bf16 = 0;
  double fp16 = 0;
  double fp8 = 0;  // 0: the device has none
  double fp4 = 0;  // with scales of blocks; 0: the device has none
};

struct DeviceProfile {
  DeviceKind kind = DeviceKind::cuda;  // cpu or cuda: selects the operators
  double memory_bytes = 0;             // 0: not stated
  // memory_bytes is what the system leaves to one process, the program included, and one that takes more is ended:
  // what is planned to need more, or by less than plans err not to, does not fit and is not run.
  bool has_hard_memory = false;
  double memory_bandwidth = 0;
  PeakFlops peak_flops;
  double kernel_seconds = 0;  // gap between the end of one kernel and the start of the next
  double pcie_bandwidth = 0;  // to host memory
};

// The fraction of the peak that a matrix product with inner dimension k and r results (over all batches) reaches:
// peak_fraction · k / (k + inner_half) · r / (r + outer_half²). The first saturating factor models the pipeline that
// each tile of results fills and drains, the second the share of the device's processors that have a tile.
struct MatrixProfile {
  double peak_fraction = 0;
  double inner_half = 0;
  double outer_half = 0;
  double fp8_peak_fraction = 0;  // replaces peak_fraction for FP8, relative to the FP8 peak; 0: no FP8
};

// A pass over memory reaches fraction · bytes / (bytes + half_bytes) of the bandwidth.
struct MemoryProfile {
  double fraction = 0;
  double half_bytes = 0;
};

// Host overheads of the program around the kernels. Where the host takes longer to launch operators than the device to
// run them, the device waits; see also HostFacts.
struct HostProfile {
  double operator_seconds = 0;     // to launch one operator of a forward pass
  double transfer_seconds = 0;     // per send or receive between stages that overlaps passes, independent of its size
  double micro_batch_seconds = 0;  // per micro-batch with its loss: data, bookkeeping, synchronisation
  double tensor_seconds = 0;       // per parameter tensor in the optimizer step
  double step_seconds = 0;         // once per step
  // What a node's memory moves by its data sheet, for all ranks of the node together; 0: not stated.
  double memory_bandwidth = 0;
  // What the disk of a node's states (memory.offload.optimizer "disk") reads and writes in turns, for all ranks of the
  // node together; 0: not stated.
  double disk_bandwidth = 0;
};

struct CollectivePoint {
  double bytes = 0;
  double seconds = 0;
};

// Measured all-reduces of this many ranks inside one node, in increasing order of bytes.
struct CollectiveTable {
  std::int64_t ranks = 0;
  std::vector<CollectivePoint> points;
};

struct NodeProfile {
  std::int64_t devices = 1;
  double link_bandwidth = 0;  // from one device to the others of its node
  double link_efficiency = 0;
  double latency_seconds = 0;
  std::vector<CollectiveTable> all_reduce;  // replaces bandwidth and latency for these numbers of ranks
};

struct NetworkProfile {
  std::int64_t adapters = 1;  // per node
  double adapter_bandwidth = 0;
  double efficiency = 0;                 // of all adapters together, in collectives of large buckets
  double point_to_point_efficiency = 0;  // of one rank's share of the adapters
  double latency_seconds = 0;
};

// What a long run meets; none where it is not known.
struct OperationProfile {
  std::optional<double> watts_per_device;               // of its node's power
  std::optional<double> device_hours_between_failures;  // on average, of those that end a run
  std::optional<double> restart_seconds;                // from a failure to the next step, repeated steps not counted
  std::optional<double> checkpoint_bandwidth;           // from one node to storage while all nodes write
};

struct ClusterProfile {
  std::string name;
  std::string description;
  DeviceProfile device;
  MatrixProfile matrix;
  AttentionProfile attention;
  // Null where the device's operators were not measured one by one. Shared by the copies of a profile.
  std::shared_ptr<const OperatorTables> operators;
  MemoryProfile memory;
  HostProfile host;
  NodeProfile node;
  NetworkProfile network;
  OperationProfile operation;                   // a file may leave it out
  double compute_slowdown = 0;                  // fraction of a collective's time lost by concurrent compute
  std::optional<double> price_per_device_hour;  // user-supplied, in any currency
  std::map<std::string, std::string> sources;   // by section: the origin of its numbers
  // The profile that this one is based on, where it is of another device: what it reaches of its peaks is that one's.
  // Set by load_profile().
  std::string borrowed_from;
  // Never read from the profile's file: share_devices() sets the first, whoever reads the recipe's `cluster` the
  // others.
  double ranks_per_device = 1;
  Program program;
  Accuracy accuracy;  // of plans with this device and program
};

// The dense peak of matrix products in the compute type, at FP8 levels that of FP8: the denominator of MFU and HFU.
double peak_flops(const ClusterProfile& profile, const PrecisionRecipe& precision);

// The dense peak of the products that FP8 levels name, of 8 or of 4 bits (precision.product_format); 0: the device has
// none.
double small_peak_flops(const ClusterProfile& profile, const PrecisionRecipe& precision);

// Reads a profile from JSON text. Throws Error(bad_recipe) with every problem, one line per problem, as
// `<file>: <JSON pointer>: …`: unknown and missing keys, wrong types, values out of range, tables that do not increase.
ClusterProfile parse_profile(std::string_view text, const std::string& file);

// The profile that `cluster.profile` of a recipe names: a file (a path with a slash or ending in .json), a name in
// `folder`, or "auto": local.json in `folder`, which `calibrate` writes, or cpu where that file does not exist. A file
// whose `based_on` names another profile states what differs from it. Throws Error(bad_recipe) for an unknown name,
// suggesting the nearest one, and for profiles that are based on each other, and Error(missing_input) for a missing
// file.
ClusterProfile load_profile(const std::string& profile, const std::filesystem::path& folder);

// How far plans with the profile's device and program are from measurements, by accuracy.json in `folder`. All scored
// runs were on GPUs: of processors the memory of processes alone is known, which counts where it is hard. With borrowed
// rates with_borrowed_rates(). Throws as load_accuracy() does.
Accuracy accuracy_of(const ClusterProfile& profile, const std::filesystem::path& folder);

// JSON that parse_profile() reads.
nlohmann::ordered_json to_json(const ClusterProfile& profile);

// Ranks per node: cluster.devices_per_node if given, else the profile's devices. On a CPU ranks may outnumber a
// machine's devices (a device is all of a processor's cores, as `calibrate` measures it): a node then has the ranks
// that the recipe asks for ÷ cluster.nodes. A GPU is never shared: ranks beyond a node's GPUs are on other nodes.
std::int64_t devices_per_node(const Recipe& recipe, const ClusterProfile& profile);

// The profile as each rank of the mesh sees it: ranks that share a CPU get equal parts of its cores, memory and
// bandwidth.
ClusterProfile share_devices(const ClusterProfile& profile, const Mesh& mesh);

}  // namespace llmtrain
