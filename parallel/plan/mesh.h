// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/recipe/recipe.h"

namespace llmtrain {

// How many ranks there are and how they stand: rank = ((pipeline · data + d) · context + c) · tensor + t, so that
// tensor neighbours are nearest, then context, then data, then pipeline. Expert ranks are the fastest within data.
struct Mesh {
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  std::int64_t data = 1;
  std::int64_t pipeline = 1;
  std::int64_t expert = 1;         // divides data
  std::int64_t expert_tensor = 1;  // ranks that split one expert's matrices
  std::int64_t zero_shard = 1;     // data-parallel ranks that share one set of shards; divides data
  std::int64_t devices_per_node = 1;

  std::int64_t world() const { return tensor * context * data * pipeline; }
  std::int64_t micro_batches(const BatchRecipe& batch) const { return batch.global / (batch.micro * data); }
};

// A set of ranks that talk to each other: `ranks` of them, `stride` apart in the order of ranks, so that `inside_node`
// of them share a node with each one (at least 1, and it divides ranks where nodes are filled evenly).
struct RankGroup {
  std::int64_t ranks = 1;
  std::int64_t stride = 1;
  std::int64_t inside_node = 1;
};

RankGroup tensor_group(const Mesh& mesh);
RankGroup context_group(const Mesh& mesh);
RankGroup data_group(const Mesh& mesh);           // data × context: the ranks that hold the same parameters
RankGroup shard_group(const Mesh& mesh);          // of the data group those that share ZeRO's shards
RankGroup replica_group(const Mesh& mesh);        // of the data group those that hold the same shard
RankGroup expert_group(const Mesh& mesh);         // exchange tokens
RankGroup expert_data_group(const Mesh& mesh);    // hold the same experts
RankGroup pipeline_neighbours(const Mesh& mesh);  // two ranks

// The mesh that the recipe asks for. The world is `launch.ranks`, else the product of the explicit degrees where `data`
// is given, else nodes × devices per node (`devices_per_node` where the recipe leaves it to the profile). Throws
// Error(bad_recipe) with every reason, a line each, and the nearest legal value, when the degrees do not divide the
// world, the batch, the layers or the nodes.
Mesh make_mesh(const Recipe& recipe, std::int64_t devices_per_node);

}  // namespace llmtrain
