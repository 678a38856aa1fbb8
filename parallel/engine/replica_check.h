// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "parallel/engine/local_model.h"
#include "parallel/layout/mesh.h"

namespace llmtrain {

// What several ranks hold the same of: whole weights where they are resident, and the owned states (ZeRO's shards, else
// all of them). Dense parameters and experts have ranks of their own.
enum class Replicated { weights, states, expert_weights, expert_states };
using ReplicaHashes = std::array<std::int64_t, 4>;  // by Replicated

// Covers this rank's memory. A single changed bit changes the hash for certain. Reads all of it once.
ReplicaHashes replica_hashes(LocalModel& model);

// Ranks that hold other values than most of the ranks with the same part; all of these where no value is in the
// majority. `of_each`: by rank. `shards_states`: whether ZeRO does.
struct ReplicaDifference {
  Replicated what{};
  std::vector<int> ranks;  // ascending, not empty
  std::vector<int> group;  // that should hold the same
};
std::vector<ReplicaDifference> replica_differences(const Mesh& mesh, std::span<const ReplicaHashes> of_each,
                                                   bool shards_states);

// Compares what the ranks hold. Collective; blocks. Throws Error(rank_lost), the same on all ranks, that names the
// ranks and their hosts if they differ after step `step`: by an error of their memory or processor, or of this program.
void check_replicas(LocalModel& model, std::int64_t step);

}  // namespace llmtrain
