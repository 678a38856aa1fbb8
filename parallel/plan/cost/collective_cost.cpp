// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/collective_cost.h"

#include <algorithm>
#include <cmath>

namespace llmtrain {
namespace {

// The (n − 1)/n of a ring: each rank sends every part but its own.
double part(std::int64_t ranks) { return static_cast<double>(ranks - 1) / static_cast<double>(ranks); }

// Depth of a binary tree over `count` members.
double doublings(double count) { return count > 1 ? std::log2(count) : 0; }

// A program's rings may use fewer adapters than a node has: by NCCL's log those of BLOOM's run left a node over one of
// four.
double adapters_in_use(const ClusterProfile& profile) {
  const std::int64_t all = profile.network.adapters, most = profile.program.network.adapters;
  return static_cast<double>(most > 0 ? std::min(all, most) : all);
}

double efficiency_in_use(const ClusterProfile& profile) {
  const double stated = profile.program.network.efficiency;
  return stated > 0 ? stated : profile.network.efficiency;
}

double node_count(const RankGroup& group) {
  return static_cast<double>(group.ranks) / static_cast<double>(std::max<std::int64_t>(1, group.inside_node));
}

// Between two measured sizes log-log interpolation; below the first the line through the first two points, which keeps
// their latency, but never faster than the first point's bandwidth; above the last the bandwidth of the last point.
double looked_up(const CollectiveTable& table, double bytes) {
  const auto& points = table.points;
  const auto above =
      std::find_if(points.begin(), points.end(), [&](const auto& point) { return point.bytes >= bytes; });
  if (above == points.end()) return points.back().seconds * bytes / points.back().bytes;
  if (above == points.begin()) {
    if (points.size() == 1) return points[0].seconds;
    const double slope = (points[1].seconds - points[0].seconds) / (points[1].bytes - points[0].bytes);
    return std::max(points[0].seconds - slope * (points[0].bytes - bytes), points[0].seconds * bytes / points[0].bytes);
  }
  const auto& below = *(above - 1);
  const double share = std::log(bytes / below.bytes) / std::log(above->bytes / below.bytes);
  return below.seconds * std::pow(above->seconds / below.seconds, share);
}

// An all-reduce is a reduce-scatter followed by an all-gather, each one half of it (Patarasuk and Yuan, 2009).
double share_of_all_reduce(Collective collective) { return collective == Collective::all_reduce ? 1 : 0.5; }

// A ring's all-reduce takes 2(n − 1) hops.
double ring_hops(const RankGroup& group) { return 2 * static_cast<double>(group.ranks - 1); }

}  // namespace

CollectiveCost::CollectiveCost(const ClusterProfile& profile, std::int64_t devices_per_node,
                               const EmulatedLink& emulated)
    : profile_(profile),
      devices_per_node_(static_cast<double>(std::max<std::int64_t>(1, devices_per_node))),
      adapters_(adapters_in_use(profile)),
      efficiency_(efficiency_in_use(profile)),
      emulated_(emulated) {
  if (profile.program.kernels.collectives != KernelRates::measured || profile.operators == nullptr) return;
  for (std::size_t place = 0; place < tables_.size(); ++place)
    tables_[place] = table_of(profile.operators->collectives, table_collectives[place]);
}

double CollectiveCost::seconds(Collective collective, double bytes, const RankGroup& group) const {
  switch (collective) {
    case Collective::all_reduce:
      return all_reduce(bytes, group);
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return ring(collective, bytes, group, efficiency_);
    case Collective::all_to_all:
      return all_to_all(bytes, group);
    case Collective::send:
    case Collective::receive:
      return point_to_point(bytes, group);
    case Collective::broadcast:
    case Collective::barrier:
      break;  // no step has them
  }
  return 0;
}

const EfficiencyTable* CollectiveCost::table(Collective collective) const {
  static_assert(static_cast<std::size_t>(Collective::all_to_all) == table_collectives.size() - 1);
  const auto place = static_cast<std::size_t>(collective);
  return place < tables_.size() ? tables_[place] : nullptr;
}

// Tensors smaller than any measured one take the time of the smallest.
double CollectiveCost::measured_seconds(const EfficiencyTable& table, Collective collective, double bytes,
                                        std::int64_t ranks) const {
  const std::array<double, 2> sizes{static_cast<double>(ranks), std::max(bytes, table.axes()[1].front())};
  return ring_bytes(collective, ranks, sizes[1]) / (profile_.node.link_bandwidth * table.find(sizes).efficiency);
}

std::optional<Basis> CollectiveCost::basis(Collective collective, double bytes, const RankGroup& group) const {
  const EfficiencyTable* measured = table(collective);
  if (measured == nullptr || group.ranks <= 1 || group.inside_node < group.ranks || bytes <= 0) return std::nullopt;
  return measured->find(std::array<double, 2>{static_cast<double>(group.ranks), bytes}).basis;
}

// Without measurements ring bandwidth and tree latency, up and down: NCCL picks the better algorithm by size, and each
// term dominates where its algorithm is chosen.
double CollectiveCost::inside_node(Collective collective, double bytes, std::int64_t ranks) const {
  if (ranks <= 1 || bytes <= 0) return 0;
  if (const EfficiencyTable* measured = table(collective)) return measured_seconds(*measured, collective, bytes, ranks);
  const double share = share_of_all_reduce(collective);
  const NodeProfile& node = profile_.node;
  for (const CollectiveTable& table : node.all_reduce) {
    if (table.ranks == ranks) return share * looked_up(table, bytes);
  }
  return share * (2 * part(ranks) * bytes / (node.link_bandwidth * node.link_efficiency) +
                  2 * node.latency_seconds * doublings(static_cast<double>(ranks)));
}

double CollectiveCost::adapter_seconds(double bytes, const RankGroup& group, double efficiency) const {
  const double nodes = node_count(group);
  if (nodes <= 1 || bytes <= 0) return 0;
  const NetworkProfile& network = profile_.network;
  // Groups of the same kind communicate at the same time, so a group with few members per node gets its share of the
  // node's adapters.
  const double share = std::min(1.0, static_cast<double>(group.inside_node) / devices_per_node_);
  const double bandwidth = adapters_ * network.adapter_bandwidth * efficiency * share;
  // A ring passes all ranks of a node before it leaves it, so that a node's adapters carry what a ring over nodes does.
  return 2 * (nodes - 1) / nodes * bytes / bandwidth;
}

double CollectiveCost::between_nodes(double bytes, const RankGroup& group, double efficiency) const {
  const double nodes = node_count(group);
  if (nodes <= 1 || bytes <= 0) return 0;
  return adapter_seconds(bytes, group, efficiency) + 2 * profile_.network.latency_seconds * doublings(nodes);
}

// As in the local backend's LinkModel: one pair on different nodes slows the whole ring.
double CollectiveCost::emulated_speedup(const RankGroup& group) const {
  return group.inside_node >= group.ranks ? emulated_.node_speedup : 1;
}

// Delays of the local backend are real sleeps: they add to the machine's own time.
double CollectiveCost::emulated_hop(const RankGroup& group) const {
  return emulated_.hop_seconds / emulated_speedup(group);
}

double CollectiveCost::emulated_ring(double bytes, const RankGroup& group) const {
  if (bytes <= 0) return 0;
  return (ring_hops(group) * emulated_.message_seconds +
          ring_bytes(Collective::all_reduce, group.ranks, bytes) * emulated_.byte_seconds) /
         emulated_speedup(group);
}

// Every rank sends each other one a message, faster to those of its node.
double CollectiveCost::emulated_all_to_all(double bytes, const RankGroup& group) const {
  const auto ranks = static_cast<double>(group.ranks);
  const double inside = std::min(ranks, static_cast<double>(group.inside_node));
  const double message = emulated_.message_seconds + bytes / ranks * emulated_.byte_seconds;
  return message * (ranks - inside + (inside - 1) / emulated_.node_speedup);
}

// Between neighbours, of which `group` may state none.
double CollectiveCost::emulated_message(double bytes, const RankGroup& group) const {
  return (emulated_.message_seconds + bytes * emulated_.byte_seconds) /
         (group.inside_node > 1 ? emulated_.node_speedup : 1);
}

double CollectiveCost::ring(Collective collective, double bytes, const RankGroup& group, double efficiency) const {
  if (group.ranks <= 1) return 0;
  const double share = share_of_all_reduce(collective);
  // The intra-node and the inter-node part are pipelined, so only the slower one counts.
  return std::max(inside_node(collective, bytes, std::min(group.inside_node, group.ranks)),
                  share * between_nodes(bytes, group, efficiency)) +
         (bytes > 0 ? share * (ring_hops(group) * emulated_hop(group) + emulated_ring(bytes, group)) : 0);
}

WireSeconds CollectiveCost::ring_wires(Collective collective, double bytes, const RankGroup& group) const {
  if (group.ranks <= 1) return {};
  const std::int64_t inside = std::min(group.inside_node, group.ranks);
  double links = inside_node(collective, bytes, inside);
  // Measured times are also what kernels wait for each other.
  if (table(collective) != nullptr)
    links = std::min(
        links, ring_bytes(collective, inside, bytes) / (profile_.node.link_bandwidth * profile_.node.link_efficiency));
  return {links,
          share_of_all_reduce(collective) * (adapter_seconds(bytes, group, efficiency_) + emulated_ring(bytes, group))};
}

double CollectiveCost::all_reduce(double bytes, const RankGroup& group) const {
  return ring(Collective::all_reduce, bytes, group, efficiency_);
}

double CollectiveCost::all_gather(double bytes, const RankGroup& group) const {
  return ring(Collective::all_gather, bytes, group, efficiency_);
}

// Each of a ring's n − 1 steps is a hop over NVLink or over the network. NCCL's own tuning model counts them so, with
// these latencies of its Simple protocol (NVIDIA/nccl, src/graph/tuning.cc, hwLat).
double CollectiveCost::ring_latency(const RankGroup& group) const {
  constexpr double link_hop_seconds = 3.4e-6, network_hop_seconds = 14e-6;
  const double nodes = node_count(group);
  // Ranks on CPUs do not use NCCL.
  if (nodes <= 1 || profile_.device.kind == DeviceKind::cpu) return 0;
  return (static_cast<double>(group.ranks) - nodes) * link_hop_seconds + (nodes - 1) * network_hop_seconds;
}

double CollectiveCost::gather_weights(double bytes, double messages, const RankGroup& group) const {
  if (group.ranks <= 1 || bytes <= 0) return 0;
  // Gathers of most programs reach what their all-reduces reach; that some fill only so many adapters is a fact of
  // these programs, not of the network.
  const double reached = profile_.program.data.gather_adapters / adapters_;
  const double efficiency = reached > 0 ? std::min(reached, efficiency_) : efficiency_;
  return ring(Collective::all_gather, bytes, group, efficiency) + messages * ring_latency(group);
}

WireSeconds CollectiveCost::all_to_all_wires(double bytes, const RankGroup& group) const {
  if (group.ranks <= 1) return {};
  const double inside = static_cast<double>(std::min(group.inside_node, group.ranks));
  const auto ranks = static_cast<double>(group.ranks);
  const NodeProfile& node = profile_.node;
  const NetworkProfile& network = profile_.network;
  // All ranks of a node exchange at the same time, so each has an equal share of the adapters.
  const double rank_bandwidth = adapters_ * network.adapter_bandwidth * efficiency_ / devices_per_node_;
  return {bytes * (inside - 1) / ranks / (node.link_bandwidth * node.link_efficiency),
          bytes * (ranks - inside) / ranks / rank_bandwidth + emulated_all_to_all(bytes, group)};
}

double CollectiveCost::all_to_all(double bytes, const RankGroup& group) const {
  if (group.ranks <= 1) return 0;
  if (const EfficiencyTable* measured = table(Collective::all_to_all);
      measured != nullptr && bytes > 0 && group.inside_node >= group.ranks)
    return measured_seconds(*measured, Collective::all_to_all, bytes, group.ranks) + emulated_all_to_all(bytes, group) +
           emulated_hop(group);
  // A profile's latency is fitted to collectives over all ranks and stands for whatever else they wait for; a message
  // alone takes no longer than this. It is that of A100, with which the gain of hierarchical exchanges at 2,048 GPUs is
  // about as published (Hwang et al., arXiv 2206.03382).
  constexpr double most_message_seconds = 2.1e-5;
  const double message = std::min(profile_.network.latency_seconds, most_message_seconds);
  const double inside = static_cast<double>(std::min(group.inside_node, group.ranks));
  const WireSeconds wires = all_to_all_wires(bytes, group);
  return wires.links + wires.adapters + (inside - 1) * profile_.node.latency_seconds +
         (static_cast<double>(group.ranks) - inside) * message + emulated_hop(group);
}

WireSeconds CollectiveCost::point_to_point_wires(double bytes, const RankGroup& group) const {
  if (group.ranks <= 1 || bytes <= 0) return {};
  const NodeProfile& node = profile_.node;
  const double emulated = emulated_message(bytes, group);
  // Neighbours on one node use its links and do not load the adapters.
  if (group.inside_node > 1) return {bytes / (node.link_bandwidth * node.link_efficiency), emulated};
  const NetworkProfile& network = profile_.network;
  // The ranks within one stride of the node's boundary send across it at the same time; each uses one adapter at most.
  const double crossing = std::min(devices_per_node_, static_cast<double>(std::max<std::int64_t>(1, group.stride)));
  const double bandwidth =
      network.adapter_bandwidth * network.point_to_point_efficiency * std::min(1.0, adapters_ / crossing);
  return {0, bytes / bandwidth + emulated};
}

double CollectiveCost::point_to_point(double bytes, const RankGroup& group) const {
  if (group.ranks <= 1 || bytes <= 0) return 0;
  const bool shares_node = group.inside_node > 1;
  const WireSeconds wires = point_to_point_wires(bytes, group);
  return wires.links + wires.adapters +
         (shares_node ? profile_.node.latency_seconds : profile_.network.latency_seconds) +
         emulated_.hop_seconds / (shares_node ? emulated_.node_speedup : 1);
}

// Only what a rank sends counts: links and adapters carry what it receives at the same time.
WireSeconds CollectiveCost::wires(Collective collective, double bytes, const RankGroup& group) const {
  switch (collective) {
    case Collective::all_reduce:
    case Collective::all_gather:
    case Collective::reduce_scatter:
      return ring_wires(collective, bytes, group);
    case Collective::all_to_all:
      return all_to_all_wires(bytes, group);
    case Collective::send:
    case Collective::receive:
      return point_to_point_wires(bytes, group);
    case Collective::broadcast:
    case Collective::barrier:
      break;  // no step has them
  }
  return {};
}

}  // namespace llmtrain
