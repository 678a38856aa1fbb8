// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/collective.h"
#include "parallel/layout/imitated_machine.h"
#include "parallel/layout/mesh.h"
#include "parallel/plan/cost/cluster_profile.h"

namespace llmtrain {

enum class AllToAllAlgorithm { linear, two_dimensional };

// What collectives take over a network of two levels: links inside a node, and adapters that the ranks of a node share
// when they talk at once, which they do: every group of the same kind works at the same time. `bytes` is the full
// tensor: what each rank holds of it after an all-gather or before a reduce-scatter. Seconds; 0 for a group of one.
class CollectiveCost {
 public:
  // `imitated`: what the local backend's network adds to all of it.
  CollectiveCost(const ClusterProfile& profile, std::int64_t devices_per_node, const ImitatedLink& imitated = {});

  double seconds(Collective collective, double bytes, const RankGroup& group) const;

  // Ring inside the node (or its measured table) beside a ring over nodes that all adapters carry, pipelined: the
  // slower of both counts (Patarasuk and Yuan, 2009). Small tensors take a tree between nodes: log2(nodes) latencies
  // each way.
  double all_reduce(double bytes, const RankGroup& group) const;
  double all_gather(double bytes, const RankGroup& group) const;
  double reduce_scatter(double bytes, const RankGroup& group) const;
  // The same for the many small tensors of sharded weights (ZeRO-3), which get less of the network.
  double gather_weights(double bytes, const RankGroup& group) const;
  double broadcast(double bytes, const RankGroup& group) const;
  // Each rank holds `bytes` and sends an equal part to every other: linear, ranks − 1 messages, or 2DH, which joins
  // messages to the same node first (Hwang et al., arXiv 2206.03382, section 3.4).
  double all_to_all(double bytes, const RankGroup& group, AllToAllAlgorithm algorithm) const;
  double all_to_all(double bytes, const RankGroup& group) const;  // the faster of both
  // One message between neighbours, while all others of the kind send theirs.
  double point_to_point(double bytes, const RankGroup& group) const;

 private:
  double inside_node(double bytes, std::int64_t ranks) const;  // one all-reduce
  double between_nodes(double bytes, const RankGroup& group, double efficiency) const;
  double imitated_ring(double bytes, std::int64_t ranks) const;  // likewise
  double reduction(double bytes, const RankGroup& group, double efficiency) const;

  const ClusterProfile& profile_;
  double devices_per_node_ = 1;
  ImitatedLink imitated_;
};

}  // namespace llmtrain
