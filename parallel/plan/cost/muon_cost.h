// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "parallel/plan/cost/operator_cost.h"

namespace llmtrain {

// Bytes that a rank sends per step for Muon's update of the layers' matrices, on the rank that sends most: parts of
// matrices and results (parallel/shard/states/sharded_matrices.h). All 0 with AdamW.
struct MuonTraffic {
  double cut = 0;                           // between the ranks whose ZeRO shards share a matrix
  double split = 0;                         // between tensor ranks
  double expert_cut = 0, expert_split = 0;  // the same of experts' matrices
};

// By pipeline rank.
std::vector<MuonTraffic> muon_traffic(const Partition& partition);

// Over which ranks the bytes of a field are sent; experts' only where the model has some.
struct MuonExchange {
  double MuonTraffic::*sent;
  Purpose purpose;
  std::string_view tensors;  // as in CommunicationEntry
  RankGroup ranks;
};
std::vector<MuonExchange> muon_exchanges(const PricedLayout& priced);

// The bytes that each rank would hold of an all-to-all of equal parts in which it sends `sent` to the others.
double all_to_all_bytes(double sent, const RankGroup& ranks);

// Bytes of a group's states, of gradients that have left before and of rounded weights that are the host's, which a
// rank copies between its GPU and the host for the update of a step (parallel/shard/states/offload/matrix_copies.h).
struct MuonCopies {
  double incoming = 0, outgoing = 0;
};
MuonCopies muon_copies(const Partition& partition, const StateGroup& group);
// The same of all groups of a pipeline rank, both ways; 0 where none are copied.
double muon_copied_bytes(const Partition& partition, ComputeDevice device, std::int64_t pipeline_rank);

// What one rank holds at most during the update beside its states, over all ranks.
double muon_workspace(const Partition& partition, ComputeDevice device);

// Seconds of the update on each pipeline rank: the passes over its states, the products that orthogonalise the matrices
// of the shard with most of them, or what these take to come to a GPU or to leave it where that is longer, and the
// traffic, which nothing hides.
std::vector<double> muon_seconds(const PricedLayout& priced);

}  // namespace llmtrain
