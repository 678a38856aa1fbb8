// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "parallel/plan/cost/operator_cost.h"

namespace llmtrain {

// Bytes that Muon's update of the layers' matrices moves per step and pipeline rank, on the ZeRO shard that moves most;
// all 0 with AdamW.
struct MuonTraffic {
  double cut = 0;         // sent to the ranks whose shards share a matrix with this one
  double gathered = 0;    // of the whole matrices that tensor ranks gather, repeated heads included
  double expert_cut = 0;  // the same of experts' matrices
  double expert_gathered = 0;
};

// By pipeline rank.
std::vector<MuonTraffic> muon_traffic(const Partition& partition);

// The bytes that each rank would hold of an all-to-all of equal parts in which it sends `sent` to the others.
double all_to_all_bytes(double sent, const RankGroup& ranks);

// What one rank holds at most during the update beside its states, over all ranks.
double muon_workspace(const Partition& partition, KernelSet kernels);

// FLOPs that orthogonalise one matrix [rows, columns] in so many steps (kernels/orthogonalize.h).
double orthogonalize_flops(double rows, double columns, double steps);

// Seconds of the update on each pipeline rank: the passes over its states, the products that orthogonalise each matrix
// of which the rank owns a part, and the traffic, which nothing hides.
std::vector<double> muon_seconds(const CostContext& context);

}  // namespace llmtrain
