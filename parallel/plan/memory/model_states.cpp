// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "parallel/plan/memory/memory_model.h"

namespace llmtrain {
namespace {

using Category = MemoryCategory;

void add_group(const StateGroup& group, ModelStates& states) {
  const StateTypes& types = group.types;
  const auto whole = static_cast<double>(group.whole()), share = static_cast<double>(group.shard());
  // The ZeRO stage from which a state is sharded: 1 optimizer and master weights, 2 gradients, 3 weights.
  const auto held = [&](std::int64_t sharded_from) { return group.zero_stage >= sharded_from ? share : whole; };
  states.resident[Category::weights] += types.weight_bytes() * held(3);
  states.resident[Category::gradients] += types.gradient_bytes() * held(2);
  states.resident[Category::master_weights] += types.master_bytes() * held(1);
  states.resident[Category::optimizer] += types.moment_bytes() * held(1);
  // Shards are resident; the whole tensors exist only while they are used, which the simulator's ledger times.
  if (group.zero_stage >= 2) states.unreduced_gradients += types.gradient_bytes() * whole;
  if (group.zero_stage >= 3) states.gathered_weights += types.weight_bytes() * whole;
  if (group.is_fp8) states.fp8_gradients += types.gradient_bytes() * whole;
}

// On one pipeline rank a tied head reads the embedding's weight; if that belongs to another stage, ZeRO-3 gathers it a
// second time for the head.
double copied_embedding_bytes(const Partition& partition, std::size_t stage) {
  const Graph& graph = *partition.graph;
  const auto has = [&](BlockKind kind) {
    return std::ranges::any_of(partition.stages[stage].blocks,
                               [&](std::size_t block) { return graph.blocks[block].kind == kind; });
  };
  const bool reads_other_stage =
      graph.model.tie_embeddings && partition.mesh.pipeline == 1 && has(BlockKind::head) && !has(BlockKind::embedding);
  if (!reads_other_stage) return 0;
  const std::int64_t elements = local_elements(graph.model, graph.logits_weight(), shard_degrees(partition.mesh));
  return state_types(partition.recipe.precision).weight_bytes() * static_cast<double>(elements);
}

}  // namespace

ModelStates model_states(const Partition& partition, std::size_t stage) {
  ModelStates states;
  for (const StateGroup& group : partition.groups[stage]) add_group(group, states);
  if (states.gathered_weights > 0) states.gathered_weights += copied_embedding_bytes(partition, stage);
  return states;
}

}  // namespace llmtrain
