// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operators.h"
#include "parallel/layout/layout.h"
#include "parallel/plan/cost/collective_cost.h"
#include "parallel/plan/cost/cost_constants.h"
#include "parallel/plan/cost/roofline.h"
#include "parallel/plan/simulator/step_costs.h"

namespace llmtrain {

// Everything that operators are priced with: the partition, the cluster and the model constants. The referenced objects
// must outlive it.
struct CostContext {
  const Partition& partition;
  const ClusterProfile& profile;
  const CostConstants& constants;
  PassSetting setting;
  Roofline roofline;
  CollectiveCost collectives;

  CostContext(const Partition& partition_in, const ClusterProfile& profile_in, const CostConstants& constants_in);

  const Recipe& recipe() const { return partition.recipe; }
  const Mesh& mesh() const { return partition.mesh; }
};

// The ranks of a collective inside a block.
RankGroup group_of(const Mesh& mesh, RankAxis axis);

// Seconds of one collective inside a block, without overlap.
double exchange_seconds(const CostContext& context, const Exchange& exchange);

// Cost of one block for one micro-batch, forward and backward, with its collectives and its recompute.
StageCost block_cost(const CostContext& context, const OperatorList& operators);

}  // namespace llmtrain
