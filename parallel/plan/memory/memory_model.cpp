// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/memory/memory_model.h"

#include <algorithm>

#include "parallel/plan/memory/model_states.h"
#include "parallel/plan/memory/overheads.h"
#include "parallel/plan/memory/stage_activations.h"

namespace llmtrain {

namespace {

using Category = MemoryCategory;

// One block is in use while the next one, or the one before, is on its way.
constexpr double blocks_in_motion = 2;

void move_to_host(StageMemory& stage, Category category, double kept) {
  const double moved = std::max(0.0, stage.resident[category] - kept);
  stage.resident[category] -= moved;
  stage.host_resident[category] += moved;
}

void offload_states(const Recipe& recipe, const ModelStates& states, StageMemory& stage) {
  const OffloadRecipe& offload = recipe.memory.offload;
  if (offload.optimizer) {
    move_to_host(stage, Category::master_weights, 0);
    move_to_host(stage, Category::optimizer, 0);
  }
  const bool is_gathered = states.gathered_weights > 0;
  if (offload.weights)
    move_to_host(stage, Category::weights, is_gathered ? 0 : blocks_in_motion * states.largest_block_weights);
}

void offload_activations(double largest_block, StageMemory& stage) {
  const double staging = std::min(stage.saved_activations, blocks_in_motion * largest_block);
  stage.host_activations = stage.saved_activations;
  stage.saved_activations = 0;
  stage.forward_workspace += staging;
  stage.backward_workspace += staging;
}

StageMemory make_stage(const Recipe& recipe, const Graph& graph, const Mesh& mesh, const Stage& placed,
                       const BlockActivations& blocks) {
  const ModelStates states = model_states(recipe, graph, mesh, placed);
  StageMemory stage;
  stage.resident = states.resident;
  stage.gathered_weights = states.gathered_weights;
  stage.unreduced_gradients = states.unreduced_gradients;
  // FP8 gradients are reduced out of one flat buffer of their own (Azure/MS-AMP, msamp/nn/distributed.py).
  const bool reduces_flat = mesh.data > 1 && states.unreduced_gradients == 0;
  if (reduces_flat) stage.resident[Category::communication] += states.fp8_gradients;

  const Neighbour elsewhere = mesh.pipeline == 1 ? Neighbour::same_rank : Neighbour::other_rank;
  const bool is_first = placed.blocks.front() == 0, is_last = placed.blocks.back() + 1 == graph.blocks.size();
  const StageEnds ends{is_first ? Neighbour::none : elsewhere, is_last ? Neighbour::none : elsewhere};
  const StageActivations activations = stage_activations(blocks, placed, ends);
  stage.saved_activations = activations.saved;
  stage.forward_workspace = activations.forward_workspace;
  stage.backward_workspace = activations.backward_workspace;
  stage.boundary_activation = activations.boundary;
  offload_states(recipe, states, stage);
  if (recipe.memory.offload.activations) offload_activations(activations.largest_block, stage);
  return stage;
}

// Token ids and targets of the rank's part of the global batch, and the table of rotations.
double input_bytes(const Recipe& recipe, const Mesh& mesh) {
  constexpr double ids_of_a_token = 2 * 8;
  const auto sequences = static_cast<double>(recipe.batch.global) / static_cast<double>(mesh.data);
  const double ids = ids_of_a_token * sequences * static_cast<double>(recipe.batch.sequence_length);
  if (recipe.model.position != Position::rope) return ids;
  return ids + 4 * static_cast<double>(recipe.model.max_sequence_length * recipe.model.head_dim);
}

}  // namespace

StepMemory make_step_memory(const Recipe& recipe, const Graph& graph, const Mesh& mesh,
                            const std::vector<Stage>& stages, KernelSet kernels) {
  const BlockActivations blocks(graph, pass_setting(recipe, mesh, kernels));
  StepMemory memory;
  for (const Stage& placed : stages) memory.stages.push_back(make_stage(recipe, graph, mesh, placed, blocks));
  memory.head_adds_to_first = graph.model.tie_embeddings && mesh.pipeline == 1;
  memory.rank[Category::framework] = framework_bytes(kernels);
  memory.rank[Category::communication] = communicator_bytes(kernels, mesh);
  memory.rank[Category::buffers] = input_bytes(recipe, mesh);
  return memory;
}

}  // namespace llmtrain
