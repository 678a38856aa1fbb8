// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/memory/model_states.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

#include "core/graph/sharding.h"
#include "parallel/plan/flat_shards.h"
#include "parallel/plan/memory/state_bytes.h"

namespace llmtrain {

namespace {

// Parameters of a stage that are stored and sharded alike.
struct Group {
  bool is_fp8 = false;
  bool is_expert = false;
  std::vector<double> sizes;  // elements on a rank, before ZeRO

  double elements() const { return std::accumulate(sizes.begin(), sizes.end(), 0.0); }
};

struct Groups {
  std::vector<Group> groups = {{false, false, {}}, {false, true, {}}, {true, false, {}}, {true, true, {}}};

  void add(bool is_fp8, bool is_expert, double elements) {
    groups[(is_fp8 ? 2U : 0U) + (is_expert ? 1U : 0U)].sizes.push_back(elements);
  }
};

bool holds_tied_copy(const Graph& graph, const Mesh& mesh, const Stage& stage) {
  return graph.model.tie_embeddings && mesh.pipeline > 1 && graph.blocks[stage.blocks.back()].kind == BlockKind::head;
}

bool gathers_tied_weight(const Graph& graph, const Stage& stage) {
  const auto has = [&](BlockKind kind) {
    return std::any_of(stage.blocks.begin(), stage.blocks.end(),
                       [&](std::size_t block) { return graph.blocks[block].kind == kind; });
  };
  return graph.model.tie_embeddings && has(BlockKind::head) && !has(BlockKind::embedding);
}

ShardDegrees degrees_of(const Mesh& mesh) { return {mesh.tensor, mesh.expert, mesh.expert_tensor}; }

Groups groups_of(const Recipe& recipe, const Graph& graph, const Mesh& mesh, const Stage& stage) {
  const bool has_fp8 = recipe.precision.fp8_level != Fp8Level::off;
  Groups groups;
  const auto add = [&](std::size_t index, BlockKind kind) {
    const Parameter& parameter = graph.parameters[index];
    const auto elements = static_cast<double>(local_elements(graph.model, parameter, degrees_of(mesh)));
    groups.add(has_fp8 && is_fp8_parameter(parameter, kind), parameter.has_expert_axis, elements);
  };
  for (const std::size_t block : stage.blocks)
    for (const std::size_t index : graph.blocks[block].parameters) add(index, graph.blocks[block].kind);
  if (holds_tied_copy(graph, mesh, stage)) add(graph.blocks.front().parameters.front(), BlockKind::embedding);
  return groups;
}

double largest_dealt_share(std::vector<double> sizes, std::int64_t ranks) {
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  if (ranks >= static_cast<std::int64_t>(sizes.size())) return sizes.empty() ? 0 : sizes.front();
  std::priority_queue<double, std::vector<double>, std::greater<>> loads;
  for (std::int64_t rank = 0; rank < ranks; ++rank) loads.push(0);
  double largest = 0;
  for (const double size : sizes) {
    const double load = loads.top() + size;
    loads.pop();
    loads.push(load);
    largest = std::max(largest, load);
  }
  return largest;
}

// Ranks that share a parameter's shards: of those that share the dense ones' the ranks that hold the same experts.
std::int64_t shard_ranks(const Mesh& mesh, bool is_expert) {
  const std::int64_t dense = mesh.zero_shard * mesh.context;
  if (!is_expert) return dense;
  return std::max<std::int64_t>(1, dense * mesh.tensor / (mesh.expert * mesh.expert_tensor));
}

void add_group(const Recipe& recipe, const Mesh& mesh, const Group& group, ModelStates& states) {
  using Category = MemoryCategory;
  const StateBytes bytes = group.is_fp8 ? fp8_state_bytes(recipe.precision.fp8_level) : state_bytes(recipe.precision);
  const std::int64_t ranks = shard_ranks(mesh, group.is_expert);
  const std::int64_t stage = ranks > 1 ? recipe.parallel.zero_stage : 0;
  const FlatShards flat{static_cast<std::int64_t>(group.elements()), ranks};
  const double whole = static_cast<double>(group.is_fp8 ? flat.elements : flat.padded());
  const double share = group.is_fp8 ? largest_dealt_share(group.sizes, ranks) : static_cast<double>(flat.part());
  const auto held = [&](std::int64_t sharded_from) { return stage >= sharded_from ? share : whole; };
  states.resident[Category::weights] += bytes.weight * held(3);
  states.resident[Category::gradients] += bytes.gradient * held(2);
  states.resident[Category::master_weights] += bytes.master * held(1);
  states.resident[Category::optimizer] += bytes.moments * held(1);
  if (stage >= 2) states.unreduced_gradients += bytes.gradient * whole;
  if (stage >= 3) states.gathered_weights += bytes.weight * whole;
  if (group.is_fp8) states.fp8_gradients += bytes.gradient * whole;
}

}  // namespace

ModelStates model_states(const Recipe& recipe, const Graph& graph, const Mesh& mesh, const Stage& stage) {
  ModelStates states;
  for (const Group& group : groups_of(recipe, graph, mesh, stage).groups)
    if (!group.sizes.empty()) add_group(recipe, mesh, group, states);
  const double weight = state_bytes(recipe.precision).weight;
  // A tied head reads the first stage's weight, which a pipeline of one shards in its own place only.
  if (states.gathered_weights > 0 && mesh.pipeline == 1 && gathers_tied_weight(graph, stage)) {
    states.gathered_weights +=
        weight * static_cast<double>(local_elements(graph.model, graph.logits_weight(), degrees_of(mesh)));
  }
  for (const std::size_t block : stage.blocks) {
    double elements = 0;
    for (const std::size_t index : graph.blocks[block].parameters)
      elements += static_cast<double>(local_elements(graph.model, graph.parameters[index], degrees_of(mesh)));
    states.largest_block_weights = std::max(states.largest_block_weights, weight * elements);
  }
  return states;
}

}  // namespace llmtrain
