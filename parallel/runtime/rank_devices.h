// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/recipe/recipe.h"
#include "parallel/comm/communicator.h"

namespace llmtrain {

// Where a rank computes, as exchanged between ranks. Plain bytes.
struct RankDevice {
  std::uint64_t node = 0;  // hash of the node's name
  std::array<unsigned char, 16> gpu{};
  std::int64_t is_gpu = 0;
};

// The backend of processes, given all ranks' devices by rank: nccl if it is requested, or if the choice is automatic
// and each rank has its own GPU; else mpi. Throws Error(bad_recipe) if the ranks' devices do not fit the request.
CommunicationBackend choose_backend(CommunicationBackend asked, const std::vector<RankDevice>& ranks, bool has_nccl);

// The device of the rank with this index on its node. Throws Error(bad_recipe) if there is none.
c10::Device choose_rank_device(const Recipe& recipe, CommunicationBackend asked, std::int64_t local_rank);

// choose_backend() with the devices of all ranks; the result is the same on all. Collective; blocks.
CommunicationBackend agree_on_backend(Communicator& host, CommunicationBackend asked, const c10::Device& device);

// The communicator that a rank trains with: `host`; for a GPU staging layered over it; for `backend` nccl NCCL layered
// over that. Collective; blocks.
std::shared_ptr<Communicator> connect_devices(std::shared_ptr<Communicator> host, CommunicationBackend backend,
                                              const c10::Device& device, double watchdog_seconds);

}  // namespace llmtrain
