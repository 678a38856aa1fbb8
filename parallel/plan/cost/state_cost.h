// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "parallel/plan/cost/operator_cost.h"

namespace llmtrain {

// The largest value of a member.
template <class Item>
double most(const std::vector<Item>& items, double Item::*member) {
  return std::ranges::max(items, {}, member).*member;
}

// Bytes of one stage's full tensors that data-parallel ranks move: the gradients of a reduction and the weights of a
// gather, including ZeRO's padding.
struct StateTraffic {
  double gradients = 0;
  double weights = 0;
  double expert_gradients = 0;
  double expert_weights = 0;
  // In how many messages each of them moves: one per block and collective.
  double reduced_blocks = 0;
  double gathered_blocks = 0;

  // Adds a group whose gradients are reduced `reductions` times and whose weights are gathered `gathers` times.
  void add(const StateGroup& group, double reductions, double gathers);
  void add_blocks(std::size_t blocks, double reductions, double gathers);
};

// Who shares states. Experts have groups of their own, which may be of one rank where the dense ones have many: nothing
// is sharded then.
struct StateRanks {
  std::int64_t zero_stage = 0;  // effective
  RankGroup data, shards, replicas;
};
StateRanks dense_ranks(const CostContext& context);
StateRanks expert_ranks(const CostContext& context);

// Seconds of one gather of sharded weights or scatter of gradients, which takes as long: ZeRO-3 moves them in one
// message per block.
double sharding_seconds(const CostContext& context, std::int64_t zero_stage, double bytes, double messages,
                        const RankGroup& group);

// Seconds of one reduction (all-reduce, or reduce-scatter at ZeRO-1 and higher) and of one gather of weights, dense
// parameters and experts each over the ranks of their own group.
double reduction_seconds(const CostContext& context, const StateTraffic& traffic);
double gather_seconds(const CostContext& context, const StateTraffic& traffic);

// The exposed seconds of a collective over a stage's tensors that runs bucket by bucket, one bucket per block,
// concurrently with a pass of the same stage: the last bucket, and what the pass is too short to hide. `slowdown` as
// StepCosts::compute_slowdown.
double exposed_beside_pass(double collective_seconds, double pass_seconds, double buckets, double slowdown);

// Gradient elements that a rank sums with other tensor ranks once per step (core/graph/sharding.h), after the
// data-parallel reduction, on the ZeRO shard that holds most of them.
struct TensorGradientShare {
  double whole_group = 0;
  double same_heads = 0;  // summed over the ranks that hold the same key-value heads
};

// By pipeline rank.
std::vector<TensorGradientShare> tensor_gradient_shares(const Partition& partition);

// The ranks that hold the same key-value heads; one rank if there are at least as many heads as tensor ranks.
RankGroup same_heads_group(const Mesh& mesh, const ModelRecipe& model);

// The two ranks that hold a tied embedding, the first and the last of the pipeline, and the bytes of its gradients that
// they exchange; 0 if one rank has both uses of it.
RankGroup shared_embedding_group(const Mesh& mesh);
double shared_embedding_bytes(const Partition& partition);

// Bytes that clipping, the update and the casts read and write per parameter; FP8 moments take two passes (FP8-LM,
// arXiv 2310.18313).
double optimizer_bytes_per_parameter(const PrecisionRecipe& precision);

// Seconds of the optimizer step of each pipeline rank: memory traffic of its shards, the host's work per tensor, the
// sums over other tensor ranks and over the ends of the pipeline, and PCIe transfers if optimizer states are offloaded.
std::vector<double> optimizer_seconds(const CostContext& context);

}  // namespace llmtrain
