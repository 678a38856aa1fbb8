// SPDX-License-Identifier: Apache-2.0
// Who talks to whom: on random meshes by the numbers, on a few by what the groups themselves say.
#include <ATen/ATen.h>
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <set>
#include <vector>

#include "tests/parallel/shard/shard_rank.h"

namespace llmtrain::test {
namespace {

// A rank's place, by the order that mesh.h gives.
struct Place {
  std::int64_t tensor, context, data, pipeline;
  std::int64_t slice, expert, copy;  // of the experts

  Place(const Mesh& mesh, int rank)
      : tensor(rank % mesh.tensor),
        context(rank / mesh.tensor % mesh.context),
        data(rank / (mesh.tensor * mesh.context) % mesh.data),
        pipeline(rank / (mesh.tensor * mesh.context * mesh.data)),
        slice(rank % mesh.stage_ranks() % mesh.expert_tensor),
        expert(rank % mesh.stage_ranks() / mesh.expert_tensor % mesh.expert),
        copy(rank % mesh.stage_ranks() / (mesh.expert_tensor * mesh.expert)) {}
};

// Whether two ranks are in one group of this kind, by what mesh.h says of the kinds.
bool are_together(const Mesh& mesh, GroupKind kind, const Place& a, const Place& b) {
  const bool tensor = a.tensor == b.tensor, context = a.context == b.context, data = a.data == b.data;
  if (kind == GroupKind::pipeline) return tensor && context && data;
  if (a.pipeline != b.pipeline) return false;
  const bool slice = a.slice == b.slice, expert = a.expert == b.expert, copy = a.copy == b.copy;
  // All experts are held as often by the data ranks that share ZeRO's shards.
  const std::int64_t shards =
      std::max<std::int64_t>(1, mesh.tensor * mesh.context * mesh.zero_shard / (mesh.expert_tensor * mesh.expert));
  const std::int64_t node = expert_node_ranks(mesh);
  switch (kind) {
    case GroupKind::tensor:
      return context && data;
    case GroupKind::context:
      return tensor && data;
    case GroupKind::data:
      return tensor;
    case GroupKind::shard:
      return tensor && a.data / mesh.zero_shard == b.data / mesh.zero_shard;
    case GroupKind::replica:
      return tensor && context && a.data % mesh.zero_shard == b.data % mesh.zero_shard;
    case GroupKind::tokens:
      return data;
    case GroupKind::expert_tensor:
      return copy && expert;
    case GroupKind::expert:
      return copy && slice;
    case GroupKind::expert_parts:
      return copy;
    case GroupKind::expert_inside:
      return copy && slice && a.expert / node == b.expert / node;
    case GroupKind::expert_across:
      return copy && slice && a.expert % node == b.expert % node;
    case GroupKind::expert_data:
      return expert && slice;
    case GroupKind::expert_shard:
      return expert && slice && a.copy / shards == b.copy / shards;
    case GroupKind::expert_replica:
      return expert && slice && a.copy % shards == b.copy % shards;
    case GroupKind::pipeline:
      break;
  }
  return false;
}

constexpr GroupKind kinds[] = {GroupKind::tensor,       GroupKind::context,       GroupKind::data,
                               GroupKind::shard,        GroupKind::replica,       GroupKind::pipeline,
                               GroupKind::tokens,       GroupKind::expert,        GroupKind::expert_tensor,
                               GroupKind::expert_data,  GroupKind::expert_shard,  GroupKind::expert_replica,
                               GroupKind::expert_parts, GroupKind::expert_inside, GroupKind::expert_across};

std::vector<int> expected_members(const Mesh& mesh, GroupKind kind, int rank) {
  std::vector<int> members;
  for (int other = 0; other < mesh.world(); ++other)
    if (are_together(mesh, kind, Place(mesh, rank), Place(mesh, other))) members.push_back(other);
  return members;
}

std::int64_t random_divisor(std::int64_t number) {
  std::vector<std::int64_t> divisors;
  for (std::int64_t i = 1; i <= number; ++i)
    if (number % i == 0) divisors.push_back(i);
  return *rc::gen::elementOf(divisors);
}

// Degrees of all sizes, not powers of two alone; nodes that the world fills evenly.
Mesh random_mesh() {
  Mesh mesh{.tensor = *rc::gen::inRange(1, 5),
            .context = *rc::gen::inRange(1, 4),
            .data = *rc::gen::inRange(1, 9),
            .pipeline = *rc::gen::inRange(1, 4)};
  mesh.zero_shard = random_divisor(mesh.data);
  mesh.expert_tensor = *rc::gen::element(mesh.tensor, random_divisor(mesh.stage_ranks()));
  mesh.expert = random_divisor(mesh.stage_ranks() / mesh.expert_tensor);
  // The ranks that share shards hold all experts equally often, or each a part of them.
  const std::int64_t sharing = mesh.tensor * mesh.context * mesh.zero_shard, parts = mesh.expert * mesh.expert_tensor;
  if (sharing % parts != 0 && sharing > parts) mesh.zero_shard = mesh.data;
  mesh.devices_per_node = random_divisor(mesh.world());
  return mesh;
}

// How many of a group's ranks lie on the node of each; all numbers that occur over the world.
std::set<std::int64_t> ranks_on_a_node(const Mesh& mesh, GroupKind kind) {
  std::set<std::int64_t> counts;
  for (int rank = 0; rank < mesh.world(); ++rank) {
    const std::vector<int> members = group_members(mesh, kind, rank);
    counts.insert(std::ranges::count_if(
        members, [&](int other) { return other / mesh.devices_per_node == rank / mesh.devices_per_node; }));
  }
  return counts;
}

}  // namespace

TEST_CASE("groups have the members that their kind says, and each kind splits the world") {
  rc::prop("of every rank of a random mesh", [] {
    const Mesh mesh = random_mesh();
    for (const GroupKind kind : kinds) {
      std::vector<int> seen(static_cast<std::size_t>(mesh.world()));
      for (int rank = 0; rank < mesh.world(); ++rank) {
        const std::vector<int> members = group_members(mesh, kind, rank);
        RC_ASSERT(members == expected_members(mesh, kind, rank));
        if (members.front() == rank)
          for (const int member : members) ++seen[static_cast<std::size_t>(member)];
      }
      RC_ASSERT(seen == std::vector<int>(seen.size(), 1));
    }
  });
}

// What makes a step right, whatever the order of the ranks: all experts once in every group that exchanges rows, and
// one part in every group that sums gradients, over all tokens of the stage.
TEST_CASE("ranks that hold all experts hold each part once, and copies the same one") {
  rc::prop("of every rank of a random mesh", [] {
    const Mesh mesh = random_mesh();
    const auto part = [&](int rank) {
      const ExpertPlace place = expert_place(mesh, rank);
      return std::pair(place.expert, place.expert_tensor);
    };
    for (int rank = 0; rank < mesh.world(); ++rank) {
      std::set<std::pair<std::int64_t, std::int64_t>> parts;
      for (const int other : group_members(mesh, GroupKind::expert_parts, rank)) parts.insert(part(other));
      RC_ASSERT(static_cast<std::int64_t>(parts.size()) == mesh.expert * mesh.expert_tensor);
      std::set<std::int64_t> exchanging, splitting;
      for (const int other : group_members(mesh, GroupKind::expert, rank)) {
        RC_ASSERT(part(other).second == part(rank).second);
        exchanging.insert(part(other).first);
      }
      for (const int other : group_members(mesh, GroupKind::expert_tensor, rank)) {
        RC_ASSERT(part(other).first == part(rank).first);
        splitting.insert(part(other).second);
      }
      RC_ASSERT(static_cast<std::int64_t>(exchanging.size()) == mesh.expert);
      RC_ASSERT(static_cast<std::int64_t>(splitting.size()) == mesh.expert_tensor);
      const std::vector<int> copies = group_members(mesh, GroupKind::expert_data, rank);
      RC_ASSERT(static_cast<std::int64_t>(copies.size()) * mesh.expert * mesh.expert_tensor == mesh.stage_ranks());
      for (const int other : copies) RC_ASSERT(part(other) == part(rank));
    }
  });
}

TEST_CASE("what collectives are priced by agrees with the groups' members") {
  rc::prop("ranks, stride, and ranks on a node where that is one number", [] {
    const Mesh mesh = random_mesh();
    for (const GroupKind kind : kinds) {
      const RankGroup group = rank_group(mesh, kind);
      const std::vector<int> members = group_members(mesh, kind, 0);
      RC_ASSERT(group.ranks == static_cast<std::int64_t>(members.size()));
      if (members.size() == 1) continue;
      std::int64_t nearest = mesh.world();
      for (std::size_t i = 1; i < members.size(); ++i)
        nearest = std::min<std::int64_t>(nearest, members[i] - members[i - 1]);
      RC_ASSERT(group.stride == nearest);
      if (kind == GroupKind::pipeline) continue;
      const std::set<std::int64_t> counts = ranks_on_a_node(mesh, kind);
      if (counts.size() == 1) RC_ASSERT(group.inside_node == *counts.begin());
    }
  });
}

// One expert's copies are all 18 ranks of a stage, in a row: nodes of 9 hold 9 of them.
TEST_CASE("no more ranks share a node than it has devices, also where nodes cut through replicas") {
  const Mesh mesh{.tensor = 3, .context = 2, .data = 3, .zero_shard = 3, .devices_per_node = 9};
  CHECK(ranks_on_a_node(mesh, GroupKind::expert_data) == std::set<std::int64_t>{9});
  CHECK(expert_data_group(mesh).inside_node == 9);
}

TEST_CASE("pipeline neighbours agree with the ranks of their stages") {
  rc::prop("of every pipeline rank, where all ranks of its stage say the same", [] {
    const Mesh mesh = random_mesh();
    const std::int64_t stride = mesh.world() / mesh.pipeline, node = mesh.devices_per_node;
    for (std::int64_t rank = 0; rank < mesh.pipeline && mesh.pipeline > 1; ++rank) {
      std::set<bool> together;
      for (std::int64_t i = rank * stride; i < (rank + 1) * stride; ++i)
        together.insert(i / node == (i + stride) % mesh.world() / node);
      const RankGroup group = pipeline_neighbours(mesh, rank);
      RC_ASSERT(group.ranks == 2);
      RC_ASSERT(group.stride == stride);
      if (together.size() == 1) RC_ASSERT(group.inside_node == (*together.begin() ? 2 : 1));
    }
  });
}

namespace {

Recipe recipe_of(std::int64_t tensor, std::int64_t context, std::int64_t pipeline, std::int64_t zero_shard) {
  Recipe recipe = small_recipe();
  recipe.model.layers = 2;
  recipe.parallel.tensor = tensor;
  recipe.parallel.context = context;
  recipe.parallel.pipeline = pipeline;
  recipe.parallel.zero_shard_ranks = zero_shard;
  return recipe;
}

// A 1 at the rank's own number; summed over a group it says who is in it.
at::Tensor own_mark(const ShardRank& rank) {
  at::Tensor marks = at::zeros({8});
  marks[rank.groups.communicator().rank()] = 1;
  return marks;
}

std::vector<int> marked(const at::Tensor& marks) {
  std::vector<int> ranks;
  for (int rank = 0; rank < 8; ++rank)
    if (marks[rank].item<float>() == 1) ranks.push_back(rank);
  return marks.sum().item<double>() == static_cast<double>(ranks.size()) ? ranks : std::vector<int>{};
}

struct Heard {
  std::vector<int> tensor, data, replica, shard;
  std::vector<int> from_before;  // pipeline
  std::vector<int> copies;
  std::vector<double> world;
};

Heard listen(ShardRank& rank) {
  Heard heard;
  const at::Tensor tensor = own_mark(rank), data = own_mark(rank), replica = own_mark(rank);
  rank.groups.tensor.sum(tensor);
  rank.groups.data.sum(data).wait();
  rank.groups.data.sum_replicas(replica).wait();
  heard.tensor = marked(tensor), heard.data = marked(data), heard.replica = marked(replica);
  const int shards = rank.groups.data.shards();
  const at::Tensor shard = at::zeros({shards}), own = at::full({1}, rank.groups.communicator().rank(), at::kFloat);
  rank.groups.data.gather(own, shard).wait();
  for (int i = 0; i < shards; ++i) heard.shard.push_back(static_cast<int>(shard[i].item<float>()));

  const PipelineParallel& pipeline = rank.groups.pipeline;
  const at::Tensor mine = own_mark(rank), before = at::zeros({8}), copies = own_mark(rank);
  using Channel = PipelineParallel::Channel;
  if (pipeline.ranks() > 1) {
    const int next = (pipeline.position() + 1) % pipeline.ranks();
    const int last = (pipeline.position() + pipeline.ranks() - 1) % pipeline.ranks();
    Handle sent = pipeline.send(Channel::activations, mine, next);
    pipeline.receive(Channel::activations, before, last).wait();
    sent.wait();
    pipeline.sum_copies({0, 1}, copies).wait();  // of the tied embedding, on two ranks
  }
  heard.from_before = marked(before), heard.copies = marked(copies);
  heard.world = rank.groups.exchange(std::vector<double>{0.5 + rank.groups.communicator().rank()});
  return heard;
}

}  // namespace

TEST_CASE("a rank's groups reach the ranks of the mesh's groups", "[ranks]") {
  for (const Recipe& recipe : {recipe_of(2, 2, 1, 2), recipe_of(2, 1, 2, 1), recipe_of(1, 1, 2, 2),
                               recipe_of(1, 2, 2, 1), recipe_of(1, 1, 1, 4), recipe_of(2, 2, 2, 1)}) {
    const Mesh mesh = layout_of(recipe, 8)->mesh();
    INFO("tensor " << mesh.tensor << ", context " << mesh.context << ", pipeline " << mesh.pipeline << ", data "
                   << mesh.data << ", shards " << mesh.zero_shard);
    const std::vector<Heard> ranks = on_ranks(recipe, 8, listen);
    for (int rank = 0; rank < 8; ++rank) {
      INFO("rank " << rank);
      const Heard& heard = ranks[static_cast<std::size_t>(rank)];
      CHECK(heard.tensor == expected_members(mesh, GroupKind::tensor, rank));
      CHECK(heard.data == expected_members(mesh, GroupKind::data, rank));
      CHECK(heard.replica == expected_members(mesh, GroupKind::replica, rank));
      CHECK(heard.shard == expected_members(mesh, GroupKind::shard, rank));
      CHECK(heard.world == std::vector<double>{0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5});
      if (mesh.pipeline == 1) continue;
      const int other = (rank + 4) % 8;  // two halves of the world
      CHECK(heard.from_before == std::vector<int>{other});
      CHECK(heard.copies == std::vector<int>{std::min(rank, other), std::max(rank, other)});
    }
  }
}

}  // namespace llmtrain::test
