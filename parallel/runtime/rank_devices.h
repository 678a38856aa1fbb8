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

// Where a rank computes, as the others hear of it.
struct RankDevice {
  std::uint64_t node = 0;  // a hash of its name
  std::array<unsigned char, 16> gpu{};
  std::int64_t is_gpu = 0;
};

// How processes talk to each other, by rank: mpi, or nccl where that is asked for, or nothing is and each rank has a
// GPU of its own. Throws Error(bad_recipe) where the ranks' devices do not fit what is asked for.
CommunicationBackend choose_backend(CommunicationBackend asked, const std::vector<RankDevice>& ranks, bool has_nccl);

// The device of the rank with this number among those of its node. Throws Error(bad_recipe) where there is none.
c10::Device choose_rank_device(const Recipe& recipe, CommunicationBackend asked, std::int64_t local_rank);

// choose_backend() with what all ranks say of themselves; the same on all of them. Blocks until all have called it.
CommunicationBackend agree_on_backend(Communicator& host, CommunicationBackend asked, const c10::Device& device);

// What a rank trains with: `host`, over it staging where the rank has a GPU, and over that NCCL for `backend` nccl.
// Blocks until all ranks have called it.
std::shared_ptr<Communicator> connect_devices(std::shared_ptr<Communicator> host, CommunicationBackend backend,
                                              const c10::Device& device, double watchdog_seconds);

}  // namespace llmtrain
