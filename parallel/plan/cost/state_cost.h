// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "parallel/plan/cost/operator_cost.h"

namespace llmtrain {

// Bytes of gradients that a rank sums with other tensor ranks once per step (core/graph/sharding.h): after the
// data-parallel reduction, on the ZeRO shard that holds most of them, or as a whole before they become FP8.
struct TensorGradientShare {
  double whole_group = 0;
  std::map<std::int64_t, double> copies{};  // summed over so many ranks that hold copies of the same units
  double maxima = 0;                        // what the tensor group agrees on of FP8 states
  double expert_maxima = 0;                 // the same of experts, by the ranks that hold all of them
};

// By pipeline rank.
std::vector<TensorGradientShare> tensor_gradient_shares(const Partition& partition);

// So many neighbouring tensor ranks, which hold copies of the same units of what is repeated (copy_counts()).
RankGroup copies_group(const Partition& partition, std::int64_t copies);

// Gradients that the ranks of a pipeline with copies of the same parameters sum once per step.
struct SharedGradients {
  const StateGroup* group = nullptr;
  RankGroup ranks;
  double bytes = 0;  // 0 where they are frozen
};
// The partition outlives them.
std::vector<SharedGradients> shared_gradients(const Partition& partition);

// Bytes that clipping, the update and the casts read and write per parameter; FP8 moments take two passes (FP8-LM,
// arXiv 2310.18313).
double optimizer_bytes_per_parameter(const PrecisionRecipe& precision);
double optimizer_bytes_per_parameter(const StateTypes& types);

// Seconds of the optimizer step of each pipeline rank: memory traffic of its shards, the host's work per tensor, the
// sums over other tensor ranks and over the pipeline's copies, and PCIe transfers if optimizer states are offloaded.
std::vector<double> optimizer_seconds(const PricedLayout& priced);

// Seconds of each pipeline rank, divided among its stages by the bytes of their states.
std::vector<double> seconds_by_stage(const Partition& partition, const std::vector<double>& of_ranks);

}  // namespace llmtrain
