// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/rank_devices.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/machine/host_name.h"
#include "parallel/comm/staged/staged_world.h"
#include "parallel/device/device.h"
#include "parallel/runtime/parts.h"
#include "parallel/runtime/torch_staging.h"

namespace llmtrain {
namespace {

RankDevice describe_own(const c10::Device& device) {
  RankDevice own;
  // Host names may be long; a hash has a fixed size and suffices to tell nodes apart.
  own.node = stable_hash(host_name());
  own.is_gpu = device.is_cpu() ? 0 : 1;
  if (own.is_gpu != 0) own.gpu = gpu_id(device);
  return own;
}

// The number of ranks on a node, and of the distinct GPUs that they use.
struct NodeCount {
  std::size_t ranks = 0;
  std::size_t gpus = 0;
};

// The first node where ranks share a GPU, if there is one.
std::optional<NodeCount> crowded_node(const std::vector<RankDevice>& ranks) {
  for (const RankDevice& first : ranks) {
    std::size_t count = 0;
    std::set<std::array<unsigned char, 16>> gpus;
    for (const RankDevice& rank : ranks) {
      if (rank.node != first.node) continue;
      ++count;
      // By UUID: ranks may number the same GPU differently, depending on which ones they are allowed to see.
      gpus.insert(rank.gpu);
    }
    if (gpus.size() < count) return NodeCount{count, gpus.size()};
  }
  return std::nullopt;
}

[[noreturn]] void refuse(const std::string& reason) { throw Error(ExitCode::bad_recipe, reason); }

void require_one_kind(const std::vector<RankDevice>& ranks) {
  const auto other =
      std::find_if(ranks.begin(), ranks.end(), [&](const RankDevice& rank) { return rank.is_gpu != ranks[0].is_gpu; });
  if (other == ranks.end()) return;
  const std::string number = std::to_string(other - ranks.begin());
  refuse("/cluster/device: \"auto\": of rank 0 and rank " + number +
         " only one has a GPU; set \"cpu\", or start ranks only on nodes with GPUs");
}

}  // namespace

CommunicationBackend choose_backend(CommunicationBackend asked, const std::vector<RankDevice>& ranks, bool has_nccl) {
  require_one_kind(ranks);
  const bool is_asked = asked == CommunicationBackend::nccl;
  if (ranks[0].is_gpu == 0) {
    if (is_asked) refuse("/launch/backend: \"nccl\" connects GPUs, and these ranks compute on CPUs; use \"mpi\"");
    return CommunicationBackend::mpi;
  }
  if (asked == CommunicationBackend::mpi) return CommunicationBackend::mpi;
  const std::optional<NodeCount> crowded = crowded_node(ranks);
  // NCCL needs a GPU per rank; automatic falls back to staging through the host.
  if (!is_asked) return crowded || !has_nccl ? CommunicationBackend::mpi : CommunicationBackend::nccl;
  if (!has_nccl) {
    refuse(
        "/launch/backend: \"nccl\": this build has no NCCL part; rebuild it where NCCL is installed, or use "
        "\"mpi\"");
  }
  if (crowded) {
    refuse("/launch/backend: \"nccl\" needs one GPU per rank, but a node has " + std::to_string(crowded->ranks) +
           " ranks and " + std::to_string(crowded->gpus) + " GPUs; start fewer ranks on it, or use \"mpi\"");
  }
  return CommunicationBackend::nccl;
}

c10::Device choose_rank_device(const Recipe& recipe, CommunicationBackend asked, std::int64_t local_rank) {
  if (asked != CommunicationBackend::nccl) return choose_device(recipe.cluster.device, local_rank);
  const std::string reason = reason_without_gpu();
  if (!reason.empty()) refuse("/launch/backend: \"nccl\" connects GPUs: " + reason + "; use \"auto\" or \"mpi\"");
  return choose_device(DeviceKind::cuda, local_rank);
}

CommunicationBackend agree_on_backend(Communicator& host, CommunicationBackend asked, const c10::Device& device) {
  const RankDevice own = describe_own(device);
  std::vector<RankDevice> all(static_cast<std::size_t>(host.size()));
  constexpr auto bytes = static_cast<std::int64_t>(sizeof(RankDevice));
  host.all_gather(host.world(), Purpose::control, ConstArray{&own, bytes, ElementType::uint8},
                  Array{all.data(), bytes * host.size(), ElementType::uint8})
      .wait();
  return choose_backend(asked, all, has_nccl_part());
}

std::shared_ptr<Communicator> connect_devices(std::shared_ptr<Communicator> host, CommunicationBackend backend,
                                              const c10::Device& device, double watchdog_seconds) {
  if (device.is_cpu()) return host;
  // Before anything allocates on the GPU: threads start on the first one.
  use_device(device);
  std::shared_ptr<Communicator> staged = stage_through_host(std::move(host), make_torch_staging(device));
  if (backend != CommunicationBackend::nccl) return staged;
  return join_nccl({.host = std::move(staged),
                    .watchdog_seconds = watchdog_seconds,
                    .device = device.index(),
                    .compute_stream = gpu_compute_stream()});
}

}  // namespace llmtrain
