// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/mesh.h"

#include <algorithm>

#include "core/recipe/rules/rules.h"

namespace llmtrain {

namespace {

// `ranks` ranks, `stride` apart.
struct Axis {
  std::int64_t ranks = 1;
  std::int64_t stride = 1;
};

// How many of the axis's ranks, counted from the first, are within `span` consecutive ranks.
std::int64_t count_within(const Axis& axis, std::int64_t span) {
  return std::clamp<std::int64_t>((span + axis.stride - 1) / axis.stride, 1, axis.ranks);
}

// All ranks of a near axis, repeated along a far one.
RankGroup group_of(const Mesh& mesh, const Axis& near, const Axis& far = {}) {
  const std::int64_t node = mesh.devices_per_node;
  std::int64_t inside = count_within(near, node);
  if (far.ranks > 1) {
    // Repetitions of the near axis that are whole within a node, and what a node holds of one that it cuts.
    const std::int64_t whole = std::min(far.ranks, node / far.stride);
    const std::int64_t rest = whole < far.ranks ? node - whole * far.stride : 0;
    inside = whole * near.ranks + (rest > 0 ? count_within(near, rest) : 0);
  }
  // The nearest two members determine which links a message between neighbours uses.
  return {.ranks = near.ranks * far.ranks, .stride = near.ranks > 1 ? near.stride : far.stride, .inside_node = inside};
}

std::int64_t model_ranks(const Mesh& mesh) { return mesh.tensor * mesh.context; }

// The indices of each axis that a group includes: `ranks` of them, `stride` apart.
struct GroupAxes {
  Axis pipeline{}, data{}, context{}, tensor{};
};

GroupAxes axes_of(const Mesh& mesh, GroupKind kind) {
  const Axis context{mesh.context, 1};
  switch (kind) {
    case GroupKind::tensor:
      return {.tensor = {mesh.tensor, 1}};
    case GroupKind::context:
      return {.context = context};
    case GroupKind::data:
      return {.data = {mesh.data, 1}, .context = context};
    case GroupKind::shard:
      return {.data = {mesh.zero_shard, 1}, .context = context};
    case GroupKind::replica:
      return {.data = {mesh.data / mesh.zero_shard, mesh.zero_shard}};
    case GroupKind::pipeline:
      return {.pipeline = {mesh.pipeline, 1}};
    case GroupKind::expert:
      return {.data = {mesh.expert, 1}};
    case GroupKind::expert_data:
      return {.data = {mesh.data / mesh.expert, mesh.expert},
              .context = context,
              .tensor = {mesh.tensor / mesh.expert_tensor, mesh.expert_tensor}};
  }
  return {};
}

// The indices along one axis of the members of the group that contains `index`.
std::vector<std::int64_t> along(const Axis& axis, std::int64_t index) {
  std::vector<std::int64_t> indices;
  const std::int64_t first = index - index / axis.stride % axis.ranks * axis.stride;
  for (std::int64_t i = 0; i < axis.ranks; ++i) indices.push_back(first + i * axis.stride);
  return indices;
}

}  // namespace

std::vector<int> group_members(const Mesh& mesh, GroupKind kind, int rank) {
  const GroupAxes axes = axes_of(mesh, kind);
  const std::int64_t tensor = rank % mesh.tensor, context = rank / mesh.tensor % mesh.context;
  // Inverse of the rank formula in mesh.h.
  const std::int64_t replica = rank / model_ranks(mesh), data = replica % mesh.data, pipeline = replica / mesh.data;
  std::vector<int> members;
  for (const std::int64_t p : along(axes.pipeline, pipeline))
    for (const std::int64_t d : along(axes.data, data))
      for (const std::int64_t c : along(axes.context, context))
        for (const std::int64_t t : along(axes.tensor, tensor))
          members.push_back(static_cast<int>(((p * mesh.data + d) * mesh.context + c) * mesh.tensor + t));
  return members;
}

RankGroup tensor_group(const Mesh& mesh) { return group_of(mesh, {mesh.tensor, 1}); }

RankGroup expert_tensor_group(const Mesh& mesh) { return group_of(mesh, {mesh.expert_tensor, 1}); }

RankGroup context_group(const Mesh& mesh) { return group_of(mesh, {mesh.context, mesh.tensor}); }

RankGroup data_group(const Mesh& mesh) { return group_of(mesh, {mesh.data * mesh.context, mesh.tensor}); }

RankGroup shard_group(const Mesh& mesh) { return group_of(mesh, {mesh.zero_shard * mesh.context, mesh.tensor}); }

RankGroup replica_group(const Mesh& mesh) {
  return group_of(mesh, {mesh.data / mesh.zero_shard, model_ranks(mesh) * mesh.zero_shard});
}

RankGroup expert_group(const Mesh& mesh) { return group_of(mesh, {mesh.expert, model_ranks(mesh)}); }

RankGroup expert_data_group(const Mesh& mesh) {
  const std::int64_t copies = mesh.tensor / mesh.expert_tensor;
  // If an expert takes whole tensor groups, its nearest copies are on the context ranks.
  const Axis near = copies > 1 ? Axis{copies * mesh.context, mesh.expert_tensor} : Axis{mesh.context, mesh.tensor};
  return group_of(mesh, near, {mesh.data / mesh.expert, model_ranks(mesh) * mesh.expert});
}

RankGroup expert_shard_group(const Mesh& mesh) {
  RankGroup group = expert_data_group(mesh);
  const std::int64_t copies = model_ranks(mesh) / mesh.expert_tensor;
  group.ranks = std::max<std::int64_t>(1, mesh.zero_shard * copies / mesh.expert);
  group.inside_node = std::min(group.inside_node, group.ranks);
  return group;
}

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
            .expert_tensor = parallel.expert_tensor,
            .devices_per_node = devices_per_node};
  mesh.zero_shard = parallel.zero_shard_ranks.value_or(mesh.data);
  return mesh;
}

}  // namespace llmtrain
