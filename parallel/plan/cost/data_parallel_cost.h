// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/plan/cost/collective_cost.h"
#include "parallel/plan/cost/parameter_share.h"

namespace llmtrain {

// What one stage's gradients and weights take to reduce and to gather, once. Where ZeRO shards them they are padded as
// FlatShards says.
struct DataParallelTraffic {
  double gradient_bytes = 0;         // the full tensors of the dense part
  double expert_gradient_bytes = 0;  // of the experts
  double weight_bytes = 0;
  double expert_weight_bytes = 0;
};

// FP8-LM's sizes (arXiv 2310.18313, tables 5 and 6): at FP8 levels gradients of linear layers travel in one byte, at O3
// their weights as well; all else keeps the recipe's types.
DataParallelTraffic data_parallel_traffic(const Recipe& recipe, const Mesh& mesh, const ParameterShare& share);

// Seconds of one reduction (all-reduce, or reduce-scatter at ZeRO-1 and higher) and of one gather of weights.
double reduction_seconds(const Recipe& recipe, const Mesh& mesh, const CollectiveCost& collectives,
                         const DataParallelTraffic& traffic);
double gather_seconds(const Recipe& recipe, const Mesh& mesh, const CollectiveCost& collectives,
                      const DataParallelTraffic& traffic);

// What is left of a collective over a stage's tensors that goes bucket by bucket, a bucket a block, beside a pass of
// the same stage: the last bucket, and what the pass is too short to hide. `slowdown` as StepCosts::compute_slowdown.
double exposed_beside_pass(double collective_seconds, double pass_seconds, double buckets, double slowdown);

}  // namespace llmtrain
