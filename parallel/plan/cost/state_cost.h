// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "parallel/plan/cost/operator_cost.h"

namespace llmtrain {

// Full tensors of one stage's states that data-parallel ranks move, in bytes: the gradients that a reduction takes and
// the weights that a gather brings, with ZeRO's padding.
struct StateTraffic {
  double gradients = 0;
  double weights = 0;
  double expert_gradients = 0;
  double expert_weights = 0;

  // Adds a group whose gradients move so many times and whose weights so many.
  void add(const StateGroup& group, double reductions, double gathers);
};

// Seconds of one reduction (all-reduce, or reduce-scatter at ZeRO-1 and higher) and of one gather of weights, by the
// groups' own ranks.
double reduction_seconds(const CostContext& context, const StateTraffic& traffic);
double gather_seconds(const CostContext& context, const StateTraffic& traffic);

// What is left of a collective over a stage's tensors that goes bucket by bucket, a bucket per block, beside a pass of
// the same stage: the last bucket, and what the pass is too short to hide. `slowdown` as StepCosts::compute_slowdown.
double exposed_beside_pass(double collective_seconds, double pass_seconds, double buckets, double slowdown);

// Elements of gradients that a rank sums with other tensor ranks once per step (core/graph/sharding.h), after the
// data-parallel reduction: of the ZeRO shard that holds most of them.
struct TensorGradientShare {
  double whole_group = 0;
  double same_heads = 0;  // with the ranks that hold the same heads of keys and values
};

// By pipeline rank.
std::vector<TensorGradientShare> tensor_gradient_shares(const Partition& partition);

// The ranks that hold the same heads of keys and values; one where there are enough heads for all.
RankGroup same_heads_group(const Mesh& mesh, const ModelRecipe& model);

// The two ranks that hold a tied embedding, the first and the last of the pipeline, and the bytes of its gradients that
// they exchange; 0 where one rank has both of its uses.
RankGroup shared_embedding_group(const Mesh& mesh);
double shared_embedding_bytes(const Partition& partition);

// Bytes that clipping, the update and the casts read and write per parameter; FP8 moments take two passes (FP8-LM,
// arXiv 2310.18313).
double optimizer_bytes_per_parameter(const PrecisionRecipe& precision);

// The optimizer step of each pipeline rank: memory traffic of its shards, the host's work for each tensor, the sums
// over other tensor ranks and over the ends of the pipeline, and with offloaded optimizer states the way over PCIe.
std::vector<double> optimizer_seconds(const CostContext& context);

}  // namespace llmtrain
