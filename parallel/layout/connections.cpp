// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/connections.h"

#include <algorithm>
#include <set>
#include <utility>

namespace llmtrain {
namespace {

class Connections {
 public:
  Connections(const Partition& partition, int rank) : partition_(partition), rank_(rank) {}

  std::vector<Connection> all() {
    add_context();
    for (const GroupKind kind : {GroupKind::data, GroupKind::shard, GroupKind::replica}) add_background(kind);
    add_tensor();
    add_pipeline();
    if (partition_.recipe.model.moe) add_experts();
    return {made_.begin(), made_.end()};
  }

 private:
  const Mesh& mesh() const { return partition_.mesh; }

  void add(Connection::Use use, std::vector<int> ranks) {
    if (ranks.size() > 1) made_.insert({use, std::move(ranks)});
  }
  void add(const Mesh& mesh, GroupKind kind) { add(Connection::Use::computation, group_members(mesh, kind, rank_)); }
  void add_background(GroupKind kind) { add(Connection::Use::background, group_members(mesh(), kind, rank_)); }

  // Late chunks of sequences are gathered in descending order.
  void add_context() {
    std::vector<int> ranks = group_members(mesh(), GroupKind::context, rank_);
    add(Connection::Use::computation, ranks);
    std::ranges::reverse(ranks);
    add(Connection::Use::computation, std::move(ranks));
  }

  // All of the group, and within it those that hold copies of the same units.
  void add_tensor() {
    for (const std::int64_t copies : copy_counts(*partition_.graph, mesh().tensor))
      add(Connection::Use::computation, partition_.copies_of(rank_, copies));
    add(mesh(), GroupKind::tensor);
  }

  // Activations go on to the next rank and gradients back, also between the last and the first; with two ranks each
  // direction has both.
  void add_pipeline() {
    const std::vector<int> ranks = group_members(mesh(), GroupKind::pipeline, rank_);
    const std::size_t size = ranks.size();
    if (size == 1) return;
    for (std::size_t position = 0; position < size; ++position) {
      const int here = ranks[position], next = ranks[(position + 1) % size];
      if (here != rank_ && next != rank_) continue;
      add(Connection::Use::activations, {here, next});
      add(Connection::Use::gradients, {next, here});
    }
    for (const std::vector<std::size_t>& positions : partition_.sharing_ranks()) {
      std::vector<int> sharing;
      for (const std::size_t position : positions) sharing.push_back(ranks[position]);
      if (std::ranges::find(sharing, rank_) != sharing.end()) add(Connection::Use::copies, std::move(sharing));
    }
  }

  void add_experts() {
    for (const GroupKind kind : {GroupKind::expert_data, GroupKind::expert_shard, GroupKind::expert_replica})
      add_background(kind);
    add(mesh(), GroupKind::expert_parts);
    add(mesh(), GroupKind::expert_tensor);
    add(mesh(), GroupKind::tokens);
    add_exchange();
    if (!mesh().switches_experts && mesh().expert_joined == 1) return;
    for (const std::int64_t split : expert_splits(mesh())) {
      const Mesh products = mesh_in_use(split_by(mesh(), split));
      add(products, GroupKind::expert_tensor);
      add(products, GroupKind::expert_shard);
    }
  }

  // Connects what a run may take of the methods that exchange tokens between experts' ranks.
  void add_exchange() {
    const AllToAll asked = partition_.recipe.parallel.expert_all_to_all;
    const bool can_relay = can_relay_rows(mesh());
    const bool tries_both = asked == AllToAll::automatic && partition_.exchange.are_open() && can_relay;
    if (tries_both || asked != AllToAll::hierarchical || !can_relay) add(mesh(), GroupKind::expert);
    if (!tries_both && (asked != AllToAll::hierarchical || !can_relay)) return;
    add(mesh(), GroupKind::expert_inside);
    add(mesh(), GroupKind::expert_across);
  }

  const Partition& partition_;
  int rank_;
  std::set<Connection> made_;
};

}  // namespace

std::vector<Connection> connections_of(const Partition& partition, int rank) {
  return Connections(partition, rank).all();
}

}  // namespace llmtrain
