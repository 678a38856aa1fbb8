// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/collective_cost.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

namespace llmtrain {
namespace {

// Links of 100 GB/s inside nodes of 8, four adapters of 10 GB/s between them, no latency.
ClusterProfile plain_profile() {
  ClusterProfile profile;
  profile.device.memory_bandwidth = 1e12;
  profile.memory = {1, 0};
  profile.node = {8, 100e9, 1, 0, {}};
  profile.network = {4, 10e9, 1, 1, 0};
  return profile;
}

constexpr double megabyte = 1e6;

TEST_CASE("a group of one takes no time") {
  const ClusterProfile profile = plain_profile();
  const CollectiveCost cost(profile, 8);
  const RankGroup one{1, 1, 1};
  CHECK(cost.all_reduce(megabyte, one) == 0);
  CHECK(cost.all_gather(megabyte, one) == 0);
  CHECK(cost.gather_weights(megabyte, 1, one) == 0);
  CHECK(cost.all_to_all(megabyte, one) == 0);
  CHECK(cost.point_to_point(megabyte, one) == 0);
}

TEST_CASE("a ring inside a node takes its bytes divided by the link's bandwidth") {
  ClusterProfile profile = plain_profile();
  const RankGroup node{8, 1, 8};
  const double ring = 2 * 7.0 / 8 * 100 * megabyte / 100e9;
  CHECK(CollectiveCost(profile, 8).all_reduce(100 * megabyte, node) == Approx(ring));
  CHECK(CollectiveCost(profile, 8).all_gather(100 * megabyte, node) == Approx(ring / 2));
  CHECK(CollectiveCost(profile, 8).seconds(Collective::reduce_scatter, 100 * megabyte, node) == Approx(ring / 2));
  profile.node.latency_seconds = 1e-5;
  CHECK(CollectiveCost(profile, 8).all_reduce(0.001, node) == Approx(2 * 3 * 1e-5));
}

// All-reduces of 2 to 8 ranks that reach a tenth of the link at 1 kB and a half at 1 MB, and all-to-alls of a quarter.
ClusterProfile profile_with_collectives() {
  ClusterProfile profile = plain_profile();
  OperatorTables tables;
  const std::vector<std::vector<double>> axes = {{2, 8}, {1e3, 1e6}};
  tables.collectives = {{"all_reduce", {axes, {0.1, 0.5, 0.1, 0.5}}},
                        {"all_gather", {axes, {0.2, 0.4, 0.2, 0.4}}},
                        {"reduce_scatter", {axes, {0.3, 0.6, 0.3, 0.6}}},
                        {"all_to_all", {axes, {0.25, 0.25, 0.25, 0.25}}}};
  profile.operators = std::make_shared<const OperatorTables>(std::move(tables));
  profile.program.kernels.collectives = KernelRates::measured;
  return profile;
}

TEST_CASE("measured collectives take their times inside a node, and between sizes the geometric mean") {
  const ClusterProfile profile = profile_with_collectives();
  const CollectiveCost cost(profile, 8);
  const RankGroup node{8, 1, 8};
  const auto ring = [](double bytes) { return 7.0 / 8 * bytes / 100e9; };
  CHECK(cost.all_reduce(megabyte, node) == Approx(2 * ring(1e6) / 0.5));
  CHECK(cost.seconds(Collective::all_gather, megabyte, node) == Approx(ring(1e6) / 0.4));
  CHECK(cost.seconds(Collective::reduce_scatter, megabyte, node) == Approx(ring(1e6) / 0.6));
  CHECK(cost.seconds(Collective::all_to_all, megabyte, node) == Approx(ring(1e6) / 0.25));
  CHECK(cost.all_reduce(std::sqrt(1e3 * 1e6), node) == Approx(2 * ring(std::sqrt(1e9)) / std::sqrt(0.1 * 0.5)));
  // Beyond the table's sizes: the time of the smallest, the rate of the largest.
  CHECK(cost.all_reduce(10, node) == Approx(2 * ring(1e3) / 0.1));
  CHECK(cost.all_reduce(100 * megabyte, node) == Approx(2 * ring(1e8) / 0.5));
  CHECK(cost.all_reduce(0, node) == 0);
  CHECK(cost.all_to_all(0, node) == Approx(0));
  CHECK(cost.basis(Collective::all_reduce, megabyte, node) == Basis::measured);
  CHECK(cost.basis(Collective::all_reduce, megabyte / 2, node) == Basis::interpolated);
  CHECK(cost.basis(Collective::all_reduce, 2 * megabyte, node) == Basis::extrapolated);
  // Wires are busy for the bytes alone.
  CHECK(cost.wires(Collective::reduce_scatter, megabyte, node).links == Approx(ring(1e6)));
  CHECK(cost.wires(Collective::all_reduce, megabyte, node).links == Approx(2 * ring(1e6)));
}

TEST_CASE("the ring over nodes is what it is without measured collectives, and so are programs that ask for none") {
  ClusterProfile profile = profile_with_collectives();
  const RankGroup two_nodes{16, 1, 8};
  const double between = 2 * 1.0 / 2 * megabyte / 40e9;
  CHECK(CollectiveCost(profile, 8).all_reduce(megabyte, two_nodes) ==
        Approx(std::max(between, 2 * 7.0 / 8 * megabyte / 100e9 / 0.5)));
  CHECK(CollectiveCost(profile, 8).all_gather(megabyte, two_nodes) ==
        Approx(std::max(between / 2, 7.0 / 8 * megabyte / 100e9 / 0.4)));
  CHECK_FALSE(CollectiveCost(profile, 8).basis(Collective::all_reduce, megabyte, two_nodes));
  profile.program.kernels.collectives = KernelRates::fitted;
  CHECK(CollectiveCost(profile, 8).all_reduce(megabyte, {8, 1, 8}) == Approx(2 * 7.0 / 8 * megabyte / 100e9));
  CHECK_FALSE(CollectiveCost(profile, 8).basis(Collective::all_reduce, megabyte, {8, 1, 8}));
}

TEST_CASE("an emulated network adds the time of its hops and bytes to that of the node's links") {
  const ClusterProfile profile = plain_profile();
  const CollectiveCost plain(profile, 4), emulated(profile, 4, {.hop_seconds = 0.01, .byte_seconds = 1e-6});
  const RankGroup node{4, 1, 4}, pair{2, 1, 2};
  const auto added = [&](auto price) { return price(emulated) - price(plain); };
  // A ring of four: three hops and three quarters of the megabyte each way.
  const double gather = 3 * 0.01 + 0.75;
  CHECK(added([&](const CollectiveCost& cost) { return cost.all_reduce(megabyte, node); }) == Approx(2 * gather));
  CHECK(added([&](const CollectiveCost& cost) { return cost.all_gather(megabyte, node); }) == Approx(gather));
  CHECK(added([&](const CollectiveCost& cost) { return cost.seconds(Collective::reduce_scatter, megabyte, node); }) ==
        Approx(gather));
  CHECK(added([&](const CollectiveCost& cost) { return cost.gather_weights(megabyte, 1, node); }) == Approx(gather));
  CHECK(added([&](const CollectiveCost& cost) { return cost.point_to_point(megabyte, pair); }) == Approx(1.01));
  CHECK(added([&](const CollectiveCost& cost) { return cost.all_to_all(megabyte, node); }) == Approx(0.76));
}

TEST_CASE("a collective occupies each wire for its bytes there, without latency") {
  ClusterProfile profile = plain_profile();
  profile.network.latency_seconds = 1;
  const CollectiveCost cost(profile, 8);
  const RankGroup two_nodes{16, 1, 8}, neighbours{2, 4, 1};
  const WireSeconds reduced = cost.wires(Collective::all_reduce, megabyte, two_nodes);
  CHECK(reduced.links == Approx(2 * 7.0 / 8 * megabyte / 100e9));
  CHECK(reduced.adapters == Approx(2 * 1.0 / 2 * megabyte / 40e9));
  CHECK(cost.wires(Collective::all_gather, megabyte, two_nodes).adapters == Approx(reduced.adapters / 2));
  // Each of eight ranks has half an adapter; eight sixteenths of the bytes go to the other node, seven to neighbours.
  const WireSeconds exchanged = cost.wires(Collective::all_to_all, megabyte, two_nodes);
  CHECK(exchanged.links == Approx(7.0 / 16 * megabyte / 100e9));
  CHECK(exchanged.adapters == Approx(8.0 / 16 * megabyte / 5e9));
  // Four ranks with four adapters.
  const WireSeconds sent = cost.wires(Collective::send, megabyte, neighbours);
  CHECK(sent.links == 0);
  CHECK(sent.adapters == Approx(megabyte / 10e9));
}

TEST_CASE("everything that a rank sends over an emulated network occupies its one link, hops do not") {
  const ClusterProfile profile = plain_profile();
  const CollectiveCost cost(profile, 4, {.hop_seconds = 1, .byte_seconds = 1e-6, .message_seconds = 0.5});
  const RankGroup node{4, 1, 4}, pair{2, 1, 2};
  CHECK(cost.wires(Collective::all_reduce, megabyte, node).adapters == Approx(6 * 0.5 + 1.5));
  CHECK(cost.wires(Collective::send, megabyte, pair).adapters == Approx(0.5 + 1));
  CHECK(cost.wires(Collective::all_to_all, megabyte, node).adapters == Approx(3 * (0.5 + 0.25)));
}

// As the local backend's: every hop and every rank's message occupies a link, and inside a node all of it is faster.
TEST_CASE("an emulated network charges messages, and links inside a node less") {
  const ClusterProfile profile = plain_profile();
  const EmulatedLink link{.hop_seconds = 0.01, .byte_seconds = 1e-6, .message_seconds = 0.002, .node_speedup = 4};
  const CollectiveCost plain(profile, 2), emulated(profile, 2, link);
  const auto added = [&](auto price) { return price(emulated) - price(plain); };
  const auto gather = [&](const RankGroup& ranks) {
    return added([&](const CollectiveCost& cost) { return cost.all_gather(megabyte, ranks); });
  };
  CHECK(gather({2, 1, 2}) == Approx((0.012 + 0.5) / 4));
  CHECK(gather({4, 1, 2}) == Approx(3 * 0.012 + 0.75));
  const auto message = [&](const RankGroup& ranks) {
    return added([&](const CollectiveCost& cost) { return cost.point_to_point(megabyte, ranks); });
  };
  CHECK(message({2, 1, 2}) == Approx(1.012 / 4));
  CHECK(message({2, 2, 1}) == Approx(1.012));
  const auto exchange = [&](const RankGroup& ranks) {
    return added([&](const CollectiveCost& cost) { return cost.all_to_all(megabyte, ranks); });
  };
  CHECK(exchange({2, 1, 2}) == Approx((0.012 + 0.5) / 4));
  // One message inside the node, two beyond it, of a quarter each.
  CHECK(exchange({4, 1, 2}) == Approx(0.01 + 2.25 * (0.002 + 0.25)));
}

TEST_CASE("a measured table replaces the formula") {
  ClusterProfile profile = plain_profile();
  profile.node.all_reduce = {{8, {{1e6, 1e-4}, {4e6, 4e-4}, {1e8, 1e-3}}}};
  const CollectiveCost cost(profile, 8);
  const RankGroup node{8, 1, 8};
  CHECK(cost.all_reduce(1e6, node) == Approx(1e-4));
  CHECK(cost.all_reduce(4e6, node) == Approx(4e-4));
  CHECK(cost.all_reduce(2e6, node) == Approx(2e-4));
  CHECK(cost.all_reduce(2e8, node) == Approx(2e-3));
  CHECK(cost.all_reduce(5e5, node) == Approx(5e-5));
  CHECK(cost.all_reduce(1e6, {4, 1, 4}) == Approx(2 * 0.75 * 1e6 / 100e9));
}

TEST_CASE("below the smallest measured size a collective keeps its latency, and takes time however the next one lies") {
  ClusterProfile profile = plain_profile();
  const RankGroup node{8, 1, 8};
  profile.node.all_reduce = {{8, {{1e6, 2e-4}, {2e6, 3e-4}}}};
  CHECK(CollectiveCost(profile, 8).all_reduce(1e5, node) == Approx(1.1e-4));
  // Three times the time of half the bytes: the line through the two points reaches 0 at 5e5 bytes.
  profile.node.all_reduce = {{8, {{1e6, 1e-4}, {2e6, 3e-4}}}};
  CHECK(CollectiveCost(profile, 8).all_reduce(1e5, node) == Approx(1e-5));
}

TEST_CASE("ranks of a node share its adapters") {
  const ClusterProfile profile = plain_profile();
  const CollectiveCost cost(profile, 8);
  // Whole nodes: two nodes' ring over 40 GB/s, which is slower than the links.
  CHECK(cost.all_reduce(100 * megabyte, {16, 1, 8}) == Approx(2 * 0.5 * 100 * megabyte / 40e9));
  // One rank per node, while the seven others do the same: an eighth of the adapters each.
  CHECK(cost.all_reduce(100 * megabyte, {2, 8, 1}) == Approx(8 * 2 * 0.5 * 100 * megabyte / 40e9));
  CHECK(cost.gather_weights(100 * megabyte, 0, {16, 1, 8}) == Approx(cost.all_gather(100 * megabyte, {16, 1, 8})));
}

TEST_CASE("a message uses one adapter at most") {
  const ClusterProfile profile = plain_profile();
  const CollectiveCost cost(profile, 8);
  CHECK(cost.point_to_point(megabyte, {2, 1, 2}) == Approx(megabyte / 100e9));
  CHECK(cost.point_to_point(megabyte, {2, 1, 1}) == Approx(megabyte / 10e9));
  CHECK(cost.point_to_point(megabyte, {2, 8, 1}) == Approx(2 * megabyte / 10e9));
  CHECK(cost.point_to_point(megabyte, {2, 64, 1}) == Approx(2 * megabyte / 10e9));
}

TEST_CASE("an all-to-all in two steps wins for small messages over many nodes, in one for large ones over few") {
  ClusterProfile profile = plain_profile();
  profile.node.latency_seconds = 1e-6;
  profile.network.latency_seconds = 1e-5;
  const CollectiveCost cost(profile, 8);
  const RankGroup many{1024, 1, 8}, few{16, 1, 8};
  // Among the ranks of a node, then among those with the same place on their nodes.
  const auto two_steps = [&](double bytes, const RankGroup& group) {
    return cost.all_to_all(bytes, {8, 1, 8}) + cost.all_to_all(bytes, {group.ranks / 8, 8, 1});
  };
  CHECK(two_steps(megabyte, many) < cost.all_to_all(megabyte, many));
  CHECK(cost.all_to_all(256 * megabyte, few) < two_steps(256 * megabyte, few));
  // Inside a node: 7 of 8 parts over the link, with one latency each; between nodes over an eighth of the adapters.
  CHECK(cost.all_to_all(8 * megabyte, {8, 1, 8}) == Approx(7 * megabyte / 100e9 + 7e-6));
  CHECK(cost.all_to_all(8 * megabyte, {4, 8, 1}) == Approx(6 * megabyte / 5e9 + 3e-5));
}

TEST_CASE("a message of an all-to-all takes no longer than one does, whatever whole collectives wait for") {
  ClusterProfile profile = plain_profile();
  const RankGroup ranks{32, 1, 8};
  const auto seconds = [&](double latency) {
    profile.network.latency_seconds = latency;
    return CollectiveCost(profile, 8).all_to_all(megabyte, ranks);
  };
  CHECK(seconds(1e-4) == seconds(1e-3));
  CHECK(seconds(1e-5) - seconds(0) == Approx(24 * 1e-5));
  CHECK(seconds(1e-4) - seconds(0) == Approx(24 * 2.1e-5));
}

TEST_CASE("collectives never get faster with bytes or nodes") {
  ClusterProfile profile = plain_profile();
  profile.node.latency_seconds = 1e-6;
  profile.network.latency_seconds = 1e-5;
  const CollectiveCost cost(profile, 8);
  for (double bytes = 1000; bytes < 1e9; bytes *= 3) {
    for (std::int64_t nodes = 1; nodes < 512; nodes *= 2) {
      const RankGroup group{8 * nodes, 1, 8}, larger{16 * nodes, 1, 8};
      CHECK(cost.all_reduce(bytes * 1.1, group) >= cost.all_reduce(bytes, group));
      CHECK(cost.all_reduce(bytes, larger) >= cost.all_reduce(bytes, group));
      CHECK(cost.all_to_all(bytes * 1.1, group) >= cost.all_to_all(bytes, group));
    }
  }
}

TEST_CASE("a gather of sharded weights pays a ring's hops for each message between nodes, and none inside one") {
  const ClusterProfile profile = plain_profile();
  const CollectiveCost cost(profile, 8);
  const RankGroup nodes{32, 1, 8}, node{8, 1, 8};
  const double one = cost.gather_weights(megabyte, 1, nodes), three = cost.gather_weights(megabyte, 3, nodes);
  // 31 hops, 3 of them between the four nodes, with the latencies of NCCL's tuning model.
  CHECK(three - one == Approx(2 * (28 * 3.4e-6 + 3 * 14e-6)));
  CHECK(cost.gather_weights(megabyte, 3, node) == cost.all_gather(megabyte, node));
}

TEST_CASE("a program may gather over fewer adapters than a node has") {
  ClusterProfile profile = plain_profile();
  const RankGroup nodes{16, 1, 8};
  const double all = CollectiveCost(profile, 8).gather_weights(1000 * megabyte, 0, nodes);
  profile.program.data.gather_adapters = 0.5;
  CHECK(CollectiveCost(profile, 8).gather_weights(1000 * megabyte, 0, nodes) == Approx(8 * all));
  // Never more than there are.
  profile.program.data.gather_adapters = 16;
  CHECK(CollectiveCost(profile, 8).gather_weights(1000 * megabyte, 0, nodes) == all);
}

TEST_CASE("a program may use fewer adapters than a node has, for all that leaves it") {
  const ClusterProfile four = plain_profile();
  ClusterProfile one = four, capped = four;
  one.network.adapters = 1;
  capped.program.network.adapters = 1;
  const CollectiveCost slow(one, 8), limited(capped, 8), fast(four, 8);
  const RankGroup nodes{16, 1, 8}, neighbours{2, 8, 1};
  for (const auto collective :
       {Collective::all_reduce, Collective::all_gather, Collective::all_to_all, Collective::send}) {
    const RankGroup& group = collective == Collective::send ? neighbours : nodes;
    const double seconds = limited.seconds(collective, 1000 * megabyte, group);
    CHECK(seconds == slow.seconds(collective, 1000 * megabyte, group));
    CHECK(seconds > fast.seconds(collective, 1000 * megabyte, group));
    CHECK(limited.wires(collective, 1000 * megabyte, group).adapters ==
          slow.wires(collective, 1000 * megabyte, group).adapters);
  }
  CHECK(limited.gather_weights(1000 * megabyte, 0, nodes) == slow.gather_weights(1000 * megabyte, 0, nodes));
  CHECK(limited.all_reduce(megabyte, {8, 1, 8}) == fast.all_reduce(megabyte, {8, 1, 8}));
  // Never more than there are.
  capped.program.network.adapters = 16;
  CHECK(CollectiveCost(capped, 8).all_reduce(1000 * megabyte, nodes) == fast.all_reduce(1000 * megabyte, nodes));
}

}  // namespace
}  // namespace llmtrain
