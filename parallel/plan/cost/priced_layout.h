// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/graph/operators/operator_lists.h"
#include "parallel/layout/layout.h"
#include "parallel/plan/cost/collective_cost.h"
#include "parallel/plan/cost/roofline.h"
#include "parallel/plan/profile/cluster_profile.h"

namespace llmtrain {

// The operators of the device that the recipe requests, else of the profile's device.
ComputeDevice compute_device(const Recipe& recipe, const ClusterProfile& profile);

// Who shares states. Experts have groups of their own, which may be of one rank where the dense ones have many.
struct StateRanks {
  std::int64_t zero_stage = 0;  // effective_zero_stage()
  RankGroup data, shards;
  RankGroup gathering;  // gathering_group()
  RankGroup replicas;
};

// A partition on a cluster with its program: what is run there, and what it is priced with. Made once for a layout;
// costs, memory, communication and reports take it, so that all of them are of the same lists of operators. The
// referenced objects must outlive it.
struct PricedLayout {
  const Partition& partition;
  const ClusterProfile& profile;  // of a rank's share of its device (share_devices())
  OperatorLists operators;
  Roofline roofline;
  CollectiveCost collectives;
  StateRanks dense_ranks, expert_ranks;  // the latter of one rank each without experts

  PricedLayout(const Partition& partition_in, const ClusterProfile& profile_in);
  // With passes of another setting than the program's.
  PricedLayout(const Partition& partition_in, const ClusterProfile& profile_in, PassSetting setting);

  const PassSetting& setting() const { return operators.setting(); }
  const Recipe& recipe() const { return partition.recipe; }
  const Graph& graph() const { return *partition.graph; }
  const Mesh& mesh() const { return partition.mesh; }
  const Program& program() const { return profile.program; }
  // Types of gradients and states, which the program may keep wider than the recipe says.
  PrecisionRecipe state_precision() const;
};

}  // namespace llmtrain
