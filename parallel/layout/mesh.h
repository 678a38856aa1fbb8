// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/graph/sharding.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The number of ranks and their order: rank = ((p · data + d) · context + c) · tensor + t for the indices p, d, c and
// t, so that tensor neighbours are nearest, then context, then data, then pipeline. Context ranks hold the same
// parameters as data ranks.
//
// Experts have a mesh of their own over the tensor × context × data ranks of a stage (MoE Parallel Folding, Liu et al.,
// arXiv 2504.14960, section 3): rank = ((p · copies + k) · expert + e) · expert_tensor + s, so that the ranks that
// split an expert are nearest, then those with other experts, then those with copies. It may cut the other mesh
// anywhere, because each rank routes tokens of its own. Where states are cut finer than products, the further slices
// are between experts and copies: rank = (((p · copies + k) · further slices + f) · expert + e) · neighbours + s.
struct Mesh {
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  std::int64_t data = 1;
  std::int64_t pipeline = 1;
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 1;  // ranks that split one expert's matrices; × expert divides tensor × context × data
  // Slices of an expert's matrices that a rank joins to compute with: states are cut over as many times more ranks than
  // split the products (joined_slices.h).
  std::int64_t expert_joined = 1;
  // How many of the ranks over which states are cut are neighbours; 0: those that split the products.
  std::int64_t expert_neighbours = 0;
  bool switches_experts = false;  // to other splits of the same slices, between steps (expert_splits())
  std::int64_t zero_shard = 1;    // data ranks that share one set of shards; divides data
  std::int64_t devices_per_node = 1;

  std::int64_t stage_ranks() const { return tensor * context * data; }
  std::int64_t world() const { return stage_ranks() * pipeline; }
  std::int64_t micro_batches(const BatchRecipe& batch) const { return batch.global / (batch.micro * data); }

  // Over how many ranks the states of one expert are cut, and how many of these are next to each other.
  std::int64_t expert_slices() const { return expert_tensor * expert_joined; }
  std::int64_t neighbours() const { return expert_neighbours > 0 ? expert_neighbours : expert_tensor; }
  // Ranks that hold all experts of a layer, each a part of them.
  std::int64_t expert_parts() const { return expert * expert_slices(); }
  // Ranks of a stage that hold the same part of experts, and of these those among the ranks that share ZeRO's shards.
  std::int64_t expert_copies() const { return std::max<std::int64_t>(1, stage_ranks() / expert_parts()); }
  std::int64_t expert_shards() const {
    return std::gcd(expert_copies(), std::max<std::int64_t>(1, tensor * context * zero_shard / expert_parts()));
  }
};

// Which part of the experts a rank holds.
struct ExpertPlace {
  std::int64_t expert = 0;         // below mesh.expert
  std::int64_t expert_tensor = 0;  // below mesh.expert_slices()
};
ExpertPlace expert_place(const Mesh& mesh, std::int64_t rank);

// The groups of ranks that communicate with each other. Those of experts are by the ranks over which states are cut;
// mesh_in_use() has those of the products.
enum class GroupKind {
  tensor,          // split the features of every layer
  context,         // split every sequence
  data,            // hold the same parameters: data × context
  shard,           // the part of a data group that shares ZeRO's shards: zero_shard × context
  replica,         // the ranks of a data group that hold the same shard
  pipeline,        // hold the stages of one copy of the model
  tokens,          // hold the tokens of one micro-batch: tensor × context
  expert,          // exchange tokens
  expert_inside,   // of these the ranks of one node
  expert_across,   // and those with the same place on other nodes
  expert_tensor,   // split one expert's matrices
  expert_parts,    // hold all experts of a layer, each a part of them: expert × slices
  expert_data,     // hold the same experts, or the same part of them
  expert_shard,    // the part of an expert_data group that shares ZeRO's shards
  expert_replica,  // the ranks of an expert_data group that hold the same shard
};

// The ranks of the group of this kind that contains `rank`, ascending.
std::vector<int> group_members(const Mesh& mesh, GroupKind kind, int rank);

// The properties of a group by which its collectives are priced: `ranks` members, the nearest two `stride` apart, with
// `inside_node` members per node (at least 1; it divides `ranks` if nodes are filled evenly).
struct RankGroup {
  std::int64_t ranks = 1;
  std::int64_t stride = 1;
  std::int64_t inside_node = 1;

  bool operator==(const RankGroup&) const = default;
};

// How many consecutive ranks of every expert group share a node: of the numbers that divide the group the largest.
std::int64_t expert_node_ranks(const Mesh& mesh);
// Whether hierarchical exchanges between expert ranks differ from linear ones: some share a node, and not all.
bool can_relay_rows(const Mesh& mesh);

// How the ranks of the mesh split parameters before ZeRO shards them.
inline ShardDegrees shard_degrees(const Mesh& mesh) { return {mesh.tensor, mesh.expert, mesh.expert_slices()}; }

// A mesh of the same states whose products so many ranks split: a divisor of the slices that divides the neighbours
// among them or is a multiple.
inline Mesh split_by(Mesh mesh, std::int64_t ranks) {
  mesh.expert_neighbours = mesh.neighbours();
  mesh.expert_joined = mesh.expert_slices() / ranks;
  mesh.expert_tensor = ranks;
  return mesh;
}

// A mesh as it would be without slices to join: of the same ranks and the same split of products.
inline Mesh mesh_in_use(Mesh mesh) {
  mesh.expert_neighbours = mesh.neighbours();
  mesh.expert_joined = 1;
  return mesh;
}

// The mesh of the products in the steps in which ranks gather most.
inline Mesh widest_mesh(const Mesh& mesh) { return mesh_in_use(mesh.switches_experts ? split_by(mesh, 1) : mesh); }

// The numbers of ranks that may split the products of an expert in a run on this mesh, ascending.
std::vector<std::int64_t> expert_splits(const Mesh& mesh);

RankGroup rank_group(const Mesh& mesh, GroupKind kind);
inline RankGroup tensor_group(const Mesh& mesh) { return rank_group(mesh, GroupKind::tensor); }
inline RankGroup context_group(const Mesh& mesh) { return rank_group(mesh, GroupKind::context); }
inline RankGroup data_group(const Mesh& mesh) { return rank_group(mesh, GroupKind::data); }
inline RankGroup shard_group(const Mesh& mesh) { return rank_group(mesh, GroupKind::shard); }
inline RankGroup replica_group(const Mesh& mesh) { return rank_group(mesh, GroupKind::replica); }
inline RankGroup token_group(const Mesh& mesh) { return rank_group(mesh, GroupKind::tokens); }
inline RankGroup expert_group(const Mesh& mesh) { return rank_group(mesh, GroupKind::expert); }
inline RankGroup expert_tensor_group(const Mesh& mesh) { return rank_group(mesh, GroupKind::expert_tensor); }
inline RankGroup expert_parts_group(const Mesh& mesh) { return rank_group(mesh, GroupKind::expert_parts); }
inline RankGroup expert_data_group(const Mesh& mesh) { return rank_group(mesh, GroupKind::expert_data); }
inline RankGroup expert_shard_group(const Mesh& mesh) { return rank_group(mesh, GroupKind::expert_shard); }
inline RankGroup expert_replica_group(const Mesh& mesh) { return rank_group(mesh, GroupKind::expert_replica); }
// Two ranks: pipeline rank r and its neighbour (r + 1) mod pipeline; without r the pair that is farthest apart.
RankGroup pipeline_neighbours(const Mesh& mesh, std::int64_t pipeline_rank);
RankGroup pipeline_neighbours(const Mesh& mesh);

// The mesh that the recipe requests, in the world that recipe and nodes define (world_of() in
// core/recipe/rules/rules.h). A recipe of one node whose explicit degrees need more gets as many as it needs. Throws
// Error(bad_recipe) like require_rules() (core/recipe/rules/rules.h), with one line per reason.
Mesh make_mesh(const Recipe& recipe, std::int64_t devices_per_node);

}  // namespace llmtrain
