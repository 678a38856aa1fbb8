// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/tensor_gradient_cost.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/graph/sharding.h"
#include "parallel/plan/flat_shards.h"

namespace llmtrain {
namespace {

using Role = ParameterRole;

// Elements on each ZeRO shard.
using ByShard = std::vector<double>;

// Adds the elements [begin, end) of flat memory that is cut into parts of `part` to their shards.
void add_to_shards(ByShard& shards, std::int64_t begin, std::int64_t end, std::int64_t part) {
  while (begin < end) {
    const std::int64_t shard = begin / part, next = std::min(end, (shard + 1) * part);
    shards[static_cast<std::size_t>(shard)] += static_cast<double>(next - begin);
    begin = next;
  }
}

struct ShardSums {
  ByShard whole_group, same_heads;
};

// Walks a stage's flat memory: its parameters back to back, cut into equal parts. Experts, and the token embedding that
// both ends of a pipeline hold, lie in memory of their own.
void add_stage(const Recipe& recipe, const Graph& graph, const Mesh& mesh, const Stage& stage, ShardSums& sums) {
  const bool ends_share_embedding = graph.model.tie_embeddings && mesh.pipeline > 1;
  const ShardDegrees degrees{mesh.tensor, mesh.expert, mesh.expert_tensor};
  const auto elements = [&](std::size_t index) {
    const Parameter& parameter = graph.parameters[index];
    const bool is_apart =
        parameter.has_expert_axis || (ends_share_embedding && parameter.role == Role::token_embedding);
    return is_apart ? 0 : local_elements(graph.model, parameter, degrees);
  };
  std::int64_t total = 0;
  for (const std::size_t block : stage.blocks)
    for (const std::size_t index : graph.blocks[block].parameters) total += elements(index);
  const FlatShards shards{total, static_cast<std::int64_t>(sums.whole_group.size())};
  const std::int64_t part = std::max<std::int64_t>(1, shards.part());
  std::int64_t begin = 0;
  for (const std::size_t block : stage.blocks) {
    for (const std::size_t index : graph.blocks[block].parameters) {
      const std::int64_t end = begin + elements(index);
      const GradientSum sum = gradient_sum(graph.model, graph.parameters[index], mesh.tensor, recipe.parallel.sequence);
      if (sum == GradientSum::tensor_group) add_to_shards(sums.whole_group, begin, end, part);
      if (sum == GradientSum::same_heads) add_to_shards(sums.same_heads, begin, end, part);
      begin = end;
    }
  }
}

double most(const ByShard& shards) { return *std::max_element(shards.begin(), shards.end()); }

}  // namespace

std::vector<TensorGradientShare> tensor_gradient_shares(const Recipe& recipe, const Graph& graph, const Mesh& mesh,
                                                        const std::vector<Stage>& stages) {
  const auto ranks = static_cast<std::size_t>(mesh.pipeline);
  std::vector<TensorGradientShare> shares(ranks);
  if (mesh.tensor == 1) return shares;
  const auto shards = static_cast<std::size_t>(recipe.parallel.zero_stage > 0 ? shard_group(mesh).ranks : 1);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    ShardSums sums{ByShard(shards, 0), ByShard(shards, 0)};
    for (std::size_t stage = rank; stage < stages.size(); stage += ranks)
      add_stage(recipe, graph, mesh, stages[stage], sums);
    shares[rank] = {most(sums.whole_group), most(sums.same_heads)};
  }
  return shares;
}

RankGroup same_heads_group(const Mesh& mesh, const ModelRecipe& model) {
  RankGroup group = tensor_group(mesh);
  group.ranks = std::max<std::int64_t>(1, mesh.tensor / model.kv_heads);
  group.inside_node = std::min(group.inside_node, group.ranks);
  return group;
}

double tensor_gradient_seconds(const TensorGradientShare& share, const Recipe& recipe, const Mesh& mesh,
                               const CollectiveCost& collectives) {
  const double element = recipe.precision.gradients == DataType::fp32 ? 4 : 2;
  return collectives.all_reduce(element * share.whole_group, tensor_group(mesh)) +
         collectives.all_reduce(element * share.same_heads, same_heads_group(mesh, recipe.model));
}

}  // namespace llmtrain
