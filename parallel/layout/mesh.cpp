// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/mesh.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <numeric>

#include "core/recipe/rules/rules.h"

namespace llmtrain {

namespace {

// `ranks` ranks, `stride` apart.
struct Axis {
  std::int64_t ranks = 1;
  std::int64_t stride = std::numeric_limits<std::int64_t>::max();
};

// A group's ranks: those of the first axis, nearest to each other, repeated along the next, and so on. A search asks
// for millions of groups, hence no vector.
using Axes = std::array<Axis, 3>;

// The ranks of a stage by what they hold of experts. Those next to each other have slices of the same experts; beyond
// the slices that products are joined of, which a mesh in use may have fewer of than neighbours, they are copies.
struct ExpertRanks {
  explicit ExpertRanks(const Mesh& mesh)
      : neighbours(mesh.neighbours()),
        near_slices(std::min(mesh.expert_slices(), neighbours)),
        far_slices(mesh.expert_slices() / near_slices),
        near_copies(neighbours / near_slices),
        period(neighbours * mesh.expert * far_slices),
        far_copies(std::max<std::int64_t>(1, mesh.stage_ranks() / period)),
        far_shards(std::max<std::int64_t>(1, mesh.expert_shards() / near_copies)) {}

  std::int64_t neighbours;
  std::int64_t near_slices, far_slices;  // far ones are neighbours × expert apart
  std::int64_t near_copies;
  std::int64_t period;  // ranks from one copy of all experts to the next
  std::int64_t far_copies;
  std::int64_t far_shards;  // of far copies, those that share ZeRO's shards
};

// The same for groups of ranks that share experts: apart from the others, for which a search asks most often.
Axes expert_axes_of(const Mesh& mesh, GroupKind kind) {
  const std::int64_t inside = expert_node_ranks(mesh);
  const ExpertRanks experts(mesh);
  const Axis near_slices{experts.near_slices, 1}, near_copies{experts.near_copies, experts.near_slices};
  const Axis far_slices{experts.far_slices, experts.neighbours * mesh.expert};
  switch (kind) {
    case GroupKind::expert:
      return {{{mesh.expert, experts.neighbours}}};
    case GroupKind::expert_inside:
      return {{{inside, experts.neighbours}}};
    case GroupKind::expert_across:
      return {{{mesh.expert / inside, experts.neighbours * inside}}};
    case GroupKind::expert_tensor:
      return {{near_slices, far_slices}};
    case GroupKind::expert_parts:
      return {{near_slices, {mesh.expert, experts.neighbours}, far_slices}};
    case GroupKind::expert_data:
      return {{near_copies, {experts.far_copies, experts.period}}};
    case GroupKind::expert_shard:
      return {{near_copies, {experts.far_shards, experts.period}}};
    case GroupKind::expert_replica:
      return {{{experts.far_copies / experts.far_shards, experts.period * experts.far_shards}}};
    case GroupKind::tensor:
    case GroupKind::context:
    case GroupKind::data:
    case GroupKind::shard:
    case GroupKind::replica:
    case GroupKind::pipeline:
    case GroupKind::tokens:
      break;
  }
  return {};
}

// The strides follow from the rank formulas in mesh.h.
Axes axes_of(const Mesh& mesh, GroupKind kind) {
  const std::int64_t replica = mesh.tensor * mesh.context;  // ranks from one data rank to the next
  const Axis context{mesh.context, mesh.tensor};
  switch (kind) {
    case GroupKind::tensor:
      return {{{mesh.tensor, 1}}};
    case GroupKind::context:
      return {{context}};
    case GroupKind::data:
      return {{context, {mesh.data, replica}}};
    case GroupKind::shard:
      return {{context, {mesh.zero_shard, replica}}};
    case GroupKind::replica:
      return {{{mesh.data / mesh.zero_shard, replica * mesh.zero_shard}}};
    case GroupKind::pipeline:
      return {{{mesh.pipeline, mesh.stage_ranks()}}};
    case GroupKind::tokens:
      return {{{mesh.tensor, 1}, context}};
    case GroupKind::expert:
    case GroupKind::expert_inside:
    case GroupKind::expert_across:
    case GroupKind::expert_tensor:
    case GroupKind::expert_parts:
    case GroupKind::expert_data:
    case GroupKind::expert_shard:
    case GroupKind::expert_replica:
      return expert_axes_of(mesh, kind);
  }
  return {};
}

std::int64_t count_ranks(const Axes& axes) {
  std::int64_t ranks = 1;
  for (const Axis& axis : axes) ranks *= axis.ranks;
  return ranks;
}

// How many of the group's ranks are within `span` consecutive ranks from its first.
std::int64_t count_within(const Axes& axes, std::int64_t span) {
  std::int64_t count = 0, repeated = count_ranks(axes);
  for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
    repeated /= axis->ranks;
    // Repetitions of the nearer axes that are whole within the span; the rest of it may hold a part of the next.
    const std::int64_t whole = std::min(axis->ranks, span / axis->stride);
    count += whole * repeated;
    if (whole == axis->ranks) return count;
    span -= whole * axis->stride;
  }
  return span > 0 ? count + 1 : count;
}

RankGroup rank_group(const Mesh& mesh, const Axes& axes) {
  // The nearest two members determine which links a message between neighbours uses.
  const auto nearest = std::ranges::find_if(axes, [](const Axis& axis) { return axis.ranks > 1; });
  return {.ranks = count_ranks(axes),
          .stride = nearest != axes.end() ? nearest->stride : 1,
          .inside_node = count_within(axes, mesh.devices_per_node)};
}

}  // namespace

std::vector<int> group_members(const Mesh& mesh, GroupKind kind, int rank) {
  const Axes axes = axes_of(mesh, kind);
  std::int64_t first = rank;
  for (const Axis& axis : axes) first -= rank / axis.stride % axis.ranks * axis.stride;
  std::vector<int> members{static_cast<int>(first)};
  for (const Axis& axis : axes) {
    const std::size_t nearer = members.size();
    for (std::int64_t i = 1; i < axis.ranks; ++i)
      for (std::size_t m = 0; m < nearer; ++m) members.push_back(members[m] + static_cast<int>(i * axis.stride));
  }
  return members;
}

std::vector<std::int64_t> expert_splits(const Mesh& mesh) {
  if (!mesh.switches_experts) return {mesh.expert_tensor};
  const std::int64_t slices = mesh.expert_slices(), neighbours = mesh.neighbours();
  std::vector<std::int64_t> splits;
  for (std::int64_t ranks = 1; ranks <= slices; ++ranks)
    if (slices % ranks == 0 && (neighbours % ranks == 0 || ranks % neighbours == 0)) splits.push_back(ranks);
  return splits;
}

std::int64_t expert_node_ranks(const Mesh& mesh) {
  // Nodes must begin with whole ones of the groups of neighbours, which lie one after another.
  const std::int64_t neighbours = mesh.neighbours();
  return mesh.devices_per_node % neighbours == 0 ? std::gcd(mesh.expert, mesh.devices_per_node / neighbours) : 1;
}

ExpertPlace expert_place(const Mesh& mesh, std::int64_t rank) {
  // Stages have whole groups of ranks with all experts.
  const ExpertRanks experts(mesh);
  const std::int64_t near = rank % experts.neighbours % experts.near_slices;
  const std::int64_t far = rank / (experts.neighbours * mesh.expert) % experts.far_slices;
  return {rank / experts.neighbours % mesh.expert, far * experts.near_slices + near};
}

bool can_relay_rows(const Mesh& mesh) {
  const std::int64_t inside = expert_node_ranks(mesh);
  return inside > 1 && inside < mesh.expert;
}

RankGroup rank_group(const Mesh& mesh, GroupKind kind) { return rank_group(mesh, axes_of(mesh, kind)); }

RankGroup pipeline_neighbours(const Mesh& mesh, std::int64_t pipeline_rank) {
  const std::int64_t stride = mesh.world() / mesh.pipeline;
  const std::int64_t next = (pipeline_rank + 1) % mesh.pipeline;
  const std::int64_t node = pipeline_rank * stride / mesh.devices_per_node;
  const bool together = node == next * stride / mesh.devices_per_node;
  return {.ranks = 2, .stride = stride, .inside_node = together ? 2 : 1};
}

RankGroup pipeline_neighbours(const Mesh& mesh) {
  // Unless the world fits in one node, some pair of neighbours crosses nodes: the slowest pair.
  const bool together = mesh.world() <= mesh.devices_per_node;
  return {.ranks = 2, .stride = mesh.world() / mesh.pipeline, .inside_node = together ? 2 : 1};
}

Mesh make_mesh(const Recipe& recipe, std::int64_t devices_per_node) {
  const World world = world_of(recipe, devices_per_node);
  // All reasons at once; what follows can rely on the degrees dividing the world.
  require_rules(recipe, world);
  const ParallelRecipe& parallel = recipe.parallel;
  Mesh mesh{.tensor = parallel.tensor,
            .context = parallel.context,
            .data = world.ranks / ranks_per_replica(parallel),
            .pipeline = parallel.pipeline,
            .expert = parallel.expert,
            .expert_tensor = expert_tensor(parallel),
            .expert_joined = expert_slices(parallel) / expert_tensor(parallel),
            .expert_neighbours = parallel.expert_tensor ? 0 : std::gcd(expert_slices(parallel), parallel.tensor),
            .switches_experts = !parallel.expert_tensor,
            .devices_per_node = devices_per_node};
  mesh.zero_shard = parallel.zero_shard_ranks.value_or(mesh.data);
  return mesh;
}

}  // namespace llmtrain
