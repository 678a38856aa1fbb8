// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/memory/memory_model.h"

#include <algorithm>

#include "core/graph/block_cache.h"
#include "core/graph/operators.h"
#include "parallel/plan/memory/overheads.h"

namespace llmtrain {
namespace {

using Category = MemoryCategory;

// Double buffering: one block is in use while its neighbour is transferred.
constexpr double blocks_in_motion = 2;

// A block's memory for one micro-batch: saved for the backward, alive during a pass, and its weights.
struct BlockMemory {
  double saved = 0;
  PassPeak peak;
  double weights = 0;  // bytes in the compute type
};

// Computes the memory of blocks that are alike once.
class Blocks {
 public:
  Blocks(const Partition& partition, KernelSet kernels)
      : partition_(partition),
        setting_(pass_setting(partition, kernels)),
        boundary_(boundary_bytes(partition.recipe.model, setting_)),
        cache_(*partition.graph) {}

  const BlockMemory& of(std::size_t block) {
    return cache_.of(block, [&] {
      const OperatorList operators = block_operators(*partition_.graph, block, setting_);
      return BlockMemory{saved_bytes(operators, setting_.recompute),
                         pass_peak(operators, setting_.recompute, boundary_), weight_bytes(block)};
    });
  }
  double boundary() const { return boundary_; }

 private:
  // Whole weights of the block on this rank, before ZeRO: what offload transfers at a time.
  double weight_bytes(std::size_t block) const {
    const Graph& graph = *partition_.graph;
    double elements = 0;
    for (const std::size_t index : graph.blocks[block].parameters)
      elements += static_cast<double>(local_elements(graph.model, graph.parameters[index], setting_.shards));
    return state_types(partition_.recipe.precision).weight_bytes() * elements;
  }

  const Partition& partition_;
  PassSetting setting_;
  double boundary_;
  BlockCache<BlockMemory> cache_;
};

// Between stages of one rank (pipeline 1) the boundary tensor is saved by the first of them. A tensor received from or
// sent to another rank is counted as communication while a pass runs, so the workspaces exclude it.
void add_activations(const Partition& partition, std::size_t index, Blocks& blocks, StageMemory& stage) {
  const bool is_one_rank = partition.mesh.pipeline == 1;
  const double boundary = blocks.boundary();
  const double from_before = index > 0 ? boundary : 0, to_next = partition.is_last(index) ? 0 : boundary;
  const double counted_elsewhere = from_before + (is_one_rank ? 0 : to_next);
  double before = 0, forward_peak = 0, backward_peak = 0;
  for (const std::size_t block : partition.stages[index].blocks) {
    const BlockMemory& memory = blocks.of(block);
    forward_peak = std::max(forward_peak, before + memory.peak.forward);
    backward_peak = std::max(backward_peak, before + memory.peak.backward);
    // Blocks that have run hold their saved activations while a later one is at its peak, in both directions.
    before += memory.saved;
  }
  stage.saved_activations = is_one_rank ? before - from_before + to_next : before;
  // The peak includes what is saved by its end; the ledger adds that separately.
  stage.forward_workspace = std::max(0.0, forward_peak - counted_elsewhere - stage.saved_activations);
  stage.backward_workspace = std::max(0.0, backward_peak - counted_elsewhere - stage.saved_activations);
  stage.boundary_activation = boundary;
}

void move_to_host(StageMemory& stage, Category category, double kept) {
  const double moved = std::max(0.0, stage.resident[category] - kept);
  stage.resident[category] -= moved;
  stage.host_resident[category] += moved;
}

void offload(const Partition& partition, std::size_t index, Blocks& blocks, StageMemory& stage) {
  const OffloadRecipe& wanted = partition.recipe.memory.offload;
  double largest_weights = 0, largest_saved = 0;
  for (const std::size_t block : partition.stages[index].blocks) {
    largest_weights = std::max(largest_weights, blocks.of(block).weights);
    largest_saved = std::max(largest_saved, blocks.of(block).saved);
  }
  // The update then runs on the host: neither master weights nor moments are needed on the device.
  if (wanted.optimizer) {
    move_to_host(stage, Category::master_weights, 0);
    move_to_host(stage, Category::optimizer, 0);
  }
  if (wanted.weights)
    move_to_host(stage, Category::weights, stage.gathered_weights > 0 ? 0 : blocks_in_motion * largest_weights);
  if (!wanted.activations) return;
  // Two blocks' activations stay on the device as staging buffers; the rest is on the host.
  const double staging = std::min(stage.saved_activations, blocks_in_motion * largest_saved);
  // Everything saved passes through the host; the staging buffers are the device's part.
  stage.host_activations = stage.saved_activations;
  stage.saved_activations = 0;
  stage.forward_workspace += staging;
  stage.backward_workspace += staging;
}

StageMemory make_stage(const Partition& partition, std::size_t index, Blocks& blocks) {
  const ModelStates states = model_states(partition, index);
  StageMemory stage;
  stage.resident = states.resident;
  stage.gathered_weights = states.gathered_weights;
  stage.unreduced_gradients = states.unreduced_gradients;
  // FP8 gradients are reduced out of one flat buffer of their own (Azure/MS-AMP, msamp/nn/distributed.py).
  // With ZeRO-2 and -3 the whole gradients already count as unreduced_gradients.
  const bool reduces_flat = partition.mesh.data > 1 && states.unreduced_gradients == 0;
  if (reduces_flat) stage.resident[Category::communication] += states.fp8_gradients;
  add_activations(partition, index, blocks, stage);
  offload(partition, index, blocks, stage);
  return stage;
}

// Token ids and targets (int64 each) of the rank's part of the global batch, and RoPE's fp32 table.
double input_bytes(const Partition& partition) {
  constexpr double bytes_per_token = 2 * 8;
  const Recipe& recipe = partition.recipe;
  const auto sequences = static_cast<double>(recipe.batch.global) / static_cast<double>(partition.mesh.data);
  const double ids = bytes_per_token * sequences * static_cast<double>(recipe.batch.sequence_length);
  // Learned positions are parameters and counted there.
  if (recipe.model.position != Position::rope) return ids;
  return ids + 4 * static_cast<double>(recipe.model.max_sequence_length * recipe.model.head_dim);
}

}  // namespace

StepMemory make_step_memory(const Partition& partition, KernelSet kernels) {
  Blocks blocks(partition, kernels);
  StepMemory memory;
  for (std::size_t stage = 0; stage < partition.stages.size(); ++stage)
    memory.stages.push_back(make_stage(partition, stage, blocks));
  // On one rank a tied head adds its weight's gradient into the embedding's, which belongs to the first stage.
  memory.head_adds_to_first = partition.recipe.model.tie_embeddings && partition.mesh.pipeline == 1;
  // Not per stage: these exist once per process.
  memory.rank[Category::framework] = framework_bytes(kernels);
  memory.rank[Category::communication] = communicator_bytes(kernels, partition.mesh);
  memory.rank[Category::buffers] = input_bytes(partition);
  return memory;
}

}  // namespace llmtrain
