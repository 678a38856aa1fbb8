// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
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

// What one rank holds at most during the update beside its states, over all ranks.
double muon_workspace(const Partition& partition, ComputeDevice device);

// Seconds of the update on each pipeline rank: the passes over its states, the products that orthogonalise the matrices
// of the shard with most of them, and the traffic, which nothing hides.
std::vector<double> muon_seconds(const PricedLayout& priced);

}  // namespace llmtrain
