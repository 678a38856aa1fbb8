// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>

#include "core/base/collective.h"
#include "parallel/layout/emulated_machine.h"
#include "parallel/layout/mesh.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/simulator/wires.h"

namespace llmtrain {

// Time of collectives over a two-level network: links inside a node, and adapters that the ranks of a node share, since
// all groups of the same kind communicate at the same time, all or as many as the program uses (NetworkFacts). `bytes`
// is the size of the full tensor, which each rank holds after an all-gather or before a reduce-scatter. Results are in
// seconds; 0 for a group of one.
class CollectiveCost {
 public:
  // `emulated`: delays that the local backend's emulated network adds to everything.
  CollectiveCost(const ClusterProfile& profile, std::int64_t devices_per_node, const EmulatedLink& emulated = {});

  // 0 for a broadcast and a barrier, which no step contains.
  double seconds(Collective collective, double bytes, const RankGroup& group) const;

  // For how long one of them occupies its rank's wires with its bytes: neither is more than seconds(). An emulated
  // network has one link per rank for everything, which counts as its adapter.
  WireSeconds wires(Collective collective, double bytes, const RankGroup& group) const;

  // A ring inside the node (or its measured time), pipelined with a ring over the nodes that uses all adapters: the
  // slower of the two counts (Patarasuk and Yuan, 2009). Latency between nodes is that of a tree: log2(nodes) latencies
  // each way. Of programs that are priced by measured collectives (KernelFacts) those inside a node are,
  // too, where the profile's section "operators" has them.
  double all_reduce(double bytes, const RankGroup& group) const;
  double all_gather(double bytes, const RankGroup& group) const;
  // The same for sharded weights (ZeRO-3), which move in so many messages, each around a ring of all ranks: its latency
  // grows with their number. A program may reach only a part of a node's adapters (DataFacts).
  double gather_weights(double bytes, double messages, const RankGroup& group) const;
  // The latency of an all-gather or reduce-scatter around a ring between nodes, which no tree shortens; 0 inside one.
  double ring_latency(const RankGroup& group) const;
  // Each rank holds `bytes` and sends an equal part to every other, in ranks − 1 messages.
  double all_to_all(double bytes, const RankGroup& group) const;
  // One message between neighbours, while all other neighbours of the same axis send theirs.
  double point_to_point(double bytes, const RankGroup& group) const;

  // Whether measured collectives price the group, all of whose ranks are in one node; none: a formula, or the profile's
  // own table of all-reduces.
  std::optional<Basis> basis(Collective collective, double bytes, const RankGroup& group) const;

 private:
  // An all-reduce, all-gather or reduce-scatter.
  double inside_node(Collective collective, double bytes, std::int64_t ranks) const;
  // Null where nothing was measured of it.
  const EfficiencyTable* table(Collective collective) const;
  double measured_seconds(const EfficiencyTable& table, Collective collective, double bytes, std::int64_t ranks) const;
  double between_nodes(double bytes, const RankGroup& group, double efficiency) const;
  double adapter_seconds(double bytes, const RankGroup& group, double efficiency) const;  // of it, without latency
  WireSeconds ring_wires(Collective collective, double bytes, const RankGroup& group) const;
  WireSeconds all_to_all_wires(double bytes, const RankGroup& group) const;
  WireSeconds point_to_point_wires(double bytes, const RankGroup& group) const;
  double emulated_speedup(const RankGroup& group) const;
  double emulated_hop(const RankGroup& group) const;
  // Seconds on the rank's emulated link, without hops.
  double emulated_ring(double bytes, const RankGroup& group) const;  // one all-reduce
  double emulated_all_to_all(double bytes, const RankGroup& group) const;
  double emulated_message(double bytes, const RankGroup& group) const;
  double ring(Collective collective, double bytes, const RankGroup& group, double efficiency) const;

  const ClusterProfile& profile_;
  // By collective, the first four of them; null: not priced by measured times.
  std::array<const EfficiencyTable*, table_collectives.size()> tables_{};
  double devices_per_node_ = 1;
  double adapters_ = 1;    // of a node, that its traffic goes over
  double efficiency_ = 1;  // of their bandwidth, that collectives reach
  EmulatedLink emulated_;
};

}  // namespace llmtrain
