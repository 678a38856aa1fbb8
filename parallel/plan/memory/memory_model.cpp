// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/memory/memory_model.h"

#include <algorithm>

#include "core/graph/graph.h"
#include "core/graph/operators/operators.h"
#include "core/graph/rope_frequencies.h"
#include "parallel/plan/cost/muon_cost.h"
#include "parallel/plan/cost/offload_cost.h"
#include "parallel/plan/cost/operator_cost.h"

namespace llmtrain {
namespace {

using Category = MemoryCategory;

// Memory that a rank takes independent of the model: one set of constants for all recipes, fitted together to the peaks
// in the FP8-LM paper (arXiv 2310.18313, table 5, read from the device) and in the Zero Bubble paper (arXiv 2401.10241,
// table 4, read from the allocator).
constexpr double cuda_context_bytes = 0.8e9;
constexpr double collective_group_bytes = 2.0e9;
constexpr double transfer_bytes = 0.1e9;

// What is resident of the training program beside its tensors: its own pages, LibTorch's and oneDNN's code and what
// these and the reading of data allocate. With MPI its libraries and the memory that ranks of a machine share, too.
// Measured (scripts/benchmarks/bench_memory, docs/performance.md).
constexpr double cpu_program_bytes = 0.163e9;
constexpr double mpi_bytes = 0.016e9;

// Double buffering: one block is in use while its neighbour is transferred.
constexpr double blocks_in_motion = 2;

void add_group(const StateGroup& group, const MemoryFacts& facts, ModelStates& states) {
  const StateTypes& types = group.types;
  const auto whole = static_cast<double>(group.whole()), share = static_cast<double>(group.shard());
  // The ZeRO stage from which a state is sharded: 1 optimizer and master weights, 2 gradients, 3 weights.
  const auto held = [&](std::int64_t sharded_from) { return group.zero_stage >= sharded_from ? share : whole; };
  states.resident[Category::weights] += types.weight_bytes() * held(3);
  states.resident[Category::gradients] += types.gradient_bytes() * held(2);
  // Weights have the compute type.
  if (facts.keeps_compute_gradients && types.gradient_bytes() > types.weight_bytes())
    states.resident[Category::gradients] += types.weight_bytes() * whole;
  states.resident[Category::master_weights] += types.master_bytes() * held(1);
  states.resident[Category::optimizer] += types.moment_bytes() * held(1);
  // Shards are resident; the whole tensors exist only while they are used, which the simulator's ledger times.
  if (group.zero_stage >= 2) states.unreduced_gradients += types.gradient_bytes() * whole;
  if (group.zero_stage >= 2) states.partial_gradients += types.gradient_bytes() * share;
  if (group.zero_stage >= 3) states.gathered_weights += types.weight_bytes() * whole;
  if (group.is_fp8) states.fp8_gradients += types.gradient_bytes() * whole;
}

// With ZeRO-3 a stage has copies of the weights that other stages of its rank hold. Those that a backward reads stay
// until the step's end, once for all stages; others come and go with the last stage that reads them.
void add_lent_weights(const Partition& partition, std::size_t stage, ModelStates& states) {
  for (const LentParameter& lent : partition.lent) {
    const Parameter& parameter = partition.graph->parameters[lent.parameter];
    const auto elements = static_cast<double>(local_elements(parameter, shard_degrees(partition.mesh)));
    const double bytes = state_types(partition.recipe.precision).weight_bytes() * elements;
    if (lent.is_read_in_backward && stage == lent.holder()) states.resident[Category::buffers] += bytes;
    if (!lent.is_read_in_backward && stage == lent.stages.back()) states.gathered_weights += bytes;
  }
}

// Gradients that a stage adds to another one's, which begin with the first of them. The head makes its own in its
// forward.
void add_lent_gradients(const Partition& partition, StepMemory& memory) {
  const Graph& graph = *partition.graph;
  for (const LentParameter& lent : partition.lent) {
    const Parameter& parameter = graph.parameters[lent.parameter];
    if (parameter.is_frozen) continue;
    const auto holder = static_cast<std::int32_t>(lent.holder());
    for (const std::size_t block : parameter.readers) {
      const auto borrows = [&](std::size_t stage) {
        return std::ranges::binary_search(partition.stages[stage].blocks, block);
      };
      const auto stage = std::find_if(lent.stages.begin() + 1, lent.stages.end(), borrows);
      if (stage == lent.stages.end()) continue;
      if (graph.blocks[block].reads_in_backward())
        memory.stages[*stage].backward_adds_to.push_back(holder);
      else
        memory.head_adds_to = holder;
    }
  }
}

// A block's memory for one micro-batch: saved for the backward, alive during a pass, and its weights.
struct BlockMemory {
  double saved = 0;
  PassPeak peak;
  double weights = 0;  // bytes in the compute type
};

// Computes the memory of blocks that are alike once.
class Blocks {
 public:
  Blocks(const Partition& partition, const OperatorLists& operators)
      : partition_(partition),
        operators_(operators),
        boundary_(boundary_bytes(operators.graph().blocks.front().hidden_size(), operators.setting())),
        cache_(operators.graph()) {}

  const BlockMemory& of(std::size_t block) {
    return cache_.of(block, [&] {
      const OperatorList& list = operators_.of(block);
      const Recompute recompute = operators_.setting().recompute;
      return BlockMemory{saved_bytes(list, recompute), pass_peak(list, recompute, boundary_), weight_bytes(block)};
    });
  }
  double boundary() const { return boundary_; }

 private:
  // Whole weights of the block on this rank, before ZeRO: what offload transfers at a time.
  double weight_bytes(std::size_t block) const {
    const Graph& graph = *partition_.graph;
    double elements = 0;
    for (const std::size_t index : graph.blocks[block].parameters)
      elements += static_cast<double>(local_elements(graph.parameters[index], operators_.setting().shards));
    return state_types(partition_.recipe.precision).weight_bytes() * elements;
  }

  const Partition& partition_;
  const OperatorLists& operators_;
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
  stage.saved_activations = kept_bytes(partition, index, before, boundary);
  // The peak includes what is saved by its end; the ledger adds that separately.
  stage.forward_workspace = std::max(0.0, forward_peak - counted_elsewhere - stage.saved_activations);
  stage.backward_workspace = std::max(0.0, backward_peak - counted_elsewhere - stage.saved_activations);
  // A layer that drops tokens has its whole input or gradient beside what it makes of the kept ones.
  if (partition.recipe.training.token_dropping) {
    stage.forward_workspace += boundary;
    stage.backward_workspace += boundary;
  }
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

// The part of a stage's gradients that are whole at once if each block's are reduced as its backward ends: while one
// block is reduced, the next makes its own.
double held_share(const Stage& stage, Blocks& blocks) {
  double largest = 0, all = 0;
  for (const std::size_t block : stage.blocks) {
    largest = std::max(largest, blocks.of(block).weights);
    all += blocks.of(block).weights;
  }
  return all > 0 ? std::min(1.0, blocks_in_motion * largest / all) : 1;
}

// Whole gradients are accumulated in a type of their own, and only those that the reduction reads are FP8.
void accumulate_before_cast(const Partition& partition, std::size_t index, StageMemory& stage) {
  for (const StateGroup& group : partition.groups[index]) {
    if (!group.types.accumulator) continue;
    const auto whole = static_cast<double>(group.whole());
    stage.accumulated_gradients += element_bytes(*group.types.accumulator) * whole;
    const double cast = group.types.gradient_bytes() * whole;
    if (group.accumulates_step(partition.shape)) {
      // Cast in the optimizer's step, one group after another, as their sums are released.
      stage.accumulates_step = true;
      stage.unreduced_gradients -= cast;
      stage.partial_gradients -= group.types.gradient_bytes() * static_cast<double>(group.shard());
    } else if (group.zero_stage >= 2) {
      // Up to ZeRO-1 they are the resident ones.
      stage.cast_gradients += cast;
    }
  }
  stage.unreduced_gradients -= stage.cast_gradients;
}

// In other programs the gradients of layers that have left FP8 are beside the FP8 ones throughout the step.
void add_wide_gradients(const Partition& partition, std::size_t index, bool is_own, StageMemory& stage) {
  if (!partition.recipe.precision.gradients_may_fall_back()) return;
  double bytes = 0;
  for (const StateGroup& group : partition.groups[index])
    if (group.types.accumulator)
      bytes += element_bytes(*group.types.accumulator) * static_cast<double>(group.elements());
  (is_own ? stage.wide_gradients : stage.resident[Category::gradients]) += bytes;
}

// What the allocator keeps of memory that comes and goes, and cannot give to tensors of other sizes.
void add_reserve(double reserve, StageMemory& stage) {
  for (double* bytes :
       {&stage.saved_activations, &stage.forward_workspace, &stage.backward_workspace, &stage.boundary_activation})
    *bytes *= 1 + reserve;
}

// Slices of experts that a rank joins, and their gradients, as ranks exchange them and as the products take them: one
// group after another.
void hold_slices_twice(const Partition& partition, std::size_t index, StageMemory& stage) {
  for (const StateGroup& group : partition.groups[index]) {
    if (group.joined == 1) continue;
    const auto whole = static_cast<double>(group.whole());
    stage.joined_weights = std::max(stage.joined_weights, whole * group.types.weight_bytes());
    stage.packed_gradients = std::max(stage.packed_gradients, whole * group.types.gradient_bytes());
  }
}

StageMemory make_stage(const PricedLayout& priced, std::size_t index, Blocks& blocks) {
  const Partition& partition = priced.partition;
  const Program& program = priced.program();
  const bool is_own = priced.setting().is_own(), is_cpu = priced.setting().device == ComputeDevice::cpu;
  const ModelStates states = model_states(partition, index, program);
  StageMemory stage;
  stage.resident = states.resident;
  stage.gathered_weights = states.gathered_weights;
  stage.unreduced_gradients = states.unreduced_gradients;
  stage.partial_gradients = states.partial_gradients;
  if (program.memory.reduces_by_block && partition.zero_stage() == 2)
    stage.unreduced_gradients *= held_share(partition.stages[index], blocks);
  if (is_own) accumulate_before_cast(partition, index, stage);
  if (is_cpu) stage.resident[Category::buffers] += checkpoint_copy_bytes(partition, index);
  // Other programs reduce FP8 gradients out of one flat buffer of their own (Azure/MS-AMP, msamp/nn/distributed.py).
  // With ZeRO-2 and -3 the whole gradients already count as unreduced_gradients.
  const bool reduces_flat = !is_own && partition.mesh.data > 1 && states.unreduced_gradients == 0;
  if (reduces_flat) stage.resident[Category::communication] += states.fp8_gradients;
  add_activations(partition, index, blocks, stage);
  hold_slices_twice(partition, index, stage);
  offload(partition, index, blocks, stage);
  if (!is_cpu) add_reserve(program.memory.allocator_reserve, stage);
  return stage;
}

// Token ids and targets (int64 each) of the rank's part of the global batch, and RoPE's fp32 tables.
double input_bytes(const Partition& partition) {
  constexpr double bytes_per_token = 2 * 8;
  const Recipe& recipe = partition.recipe;
  const auto sequences = static_cast<double>(recipe.batch.global) / static_cast<double>(partition.mesh.data);
  const double ids = bytes_per_token * sequences * static_cast<double>(recipe.batch.sequence_length);
  // Learned positions are parameters and counted there.
  double angles = 0;
  for (const RopeSettings& rope : rope_settings(*partition.graph))
    angles += 4 * static_cast<double>(rope.positions * rope.head_dim);
  return ids + angles;
}

// CUDA: context, modules and library workspaces of a process on one device. CPU: the program with LibTorch loaded, and
// with MPI if there is more than one rank.
double framework_bytes(ComputeDevice device, const Mesh& mesh) {
  if (device == ComputeDevice::cuda) return cuda_context_bytes;
  return cpu_program_bytes + (mesh.world() > 1 ? mpi_bytes : 0);
}

// Channel and staging buffers of the collectives, per kind of group that has more than one rank, and of point-to-point
// transfers between pipeline ranks. Not per connection (parallel/layout/connections.h), of which llmtrain has several
// of a kind: published figures, which these bytes are fitted to, are of programs that connect their ranks otherwise. 0
// on the CPU, where ranks copy between tensors directly.
double communicator_bytes(ComputeDevice device, const Mesh& mesh, bool has_experts) {
  if (device == ComputeDevice::cpu) return 0;
  double bytes = mesh.pipeline > 1 ? transfer_bytes : 0;
  // One communicator per kind of group that has peers; pipeline neighbours only exchange point to point.
  // Where all tensor ranks split an expert, and only they, their group serves for both.
  const std::int64_t splitting = has_experts && mesh.expert_tensor != mesh.tensor ? mesh.expert_tensor : 1;
  for (const std::int64_t ranks : {mesh.tensor, mesh.context, mesh.data, mesh.expert, splitting})
    if (ranks > 1) bytes += collective_group_bytes;
  return bytes;
}

}  // namespace

ModelStates model_states(const Partition& partition, std::size_t stage, const Program& program) {
  ModelStates states;
  for (const StateGroup& group : partition.groups[stage]) add_group(group, program.memory, states);
  if (states.gathered_weights > 0) add_lent_weights(partition, stage, states);
  return states;
}

double checkpoint_copy_bytes(const Partition& partition, std::size_t stage) {
  const CheckpointRecipe& checkpoint = partition.recipe.checkpoint;
  if (!checkpoint.async || checkpoint.every == 0) return 0;
  const Mesh& mesh = partition.mesh;
  double bytes = 0;
  for (const StateGroup& group : partition.groups[stage]) {
    // Of what several ranks of a pipeline hold one writes.
    if (!group.counts_on(stage)) continue;
    const bool is_experts = group.kind == StateGroup::Kind::experts;
    const std::int64_t parts = is_experts ? mesh.expert * shard_degrees(mesh).expert_tensor : mesh.tensor;
    // Ranks that hold the same write equal parts of it, sharded or not.
    const std::int64_t writers = mesh.world() / (mesh.pipeline * parts);
    const double kept = group.types.weight_bytes() + group.types.master_bytes() + group.types.moment_bytes();
    bytes += kept * static_cast<double>(group.elements()) / static_cast<double>(writers);
  }
  return bytes;
}

StepMemory make_step_memory(const PricedLayout& priced, Fp8Layers fp8) {
  StepMemory memory = make_pass_memory(priced, fp8);
  memory.optimizer_workspace = muon_workspace(priced.partition, priced.setting().device);
  return memory;
}

StepMemory make_pass_memory(const PricedLayout& priced, Fp8Layers fp8) {
  const Partition& partition = priced.partition;
  const bool has_fallen_back = fp8 == Fp8Layers::after_fallback;
  PassSetting wide = priced.setting();
  wide.keeps_wide_inputs = has_fallen_back && partition.recipe.precision.products_may_fall_back();
  const OperatorLists wide_operators(priced.graph(), wide);
  Blocks blocks(partition, wide.keeps_wide_inputs ? wide_operators : priced.operators);
  StepMemory memory;
  for (std::size_t stage = 0; stage < partition.stages.size(); ++stage) {
    memory.stages.push_back(make_stage(priced, stage, blocks));
    if (has_fallen_back) add_wide_gradients(partition, stage, priced.setting().is_own(), memory.stages.back());
  }
  add_lent_gradients(partition, memory);
  // Not per stage: these exist once per process.
  memory.rank[Category::framework] = framework_bytes(priced.setting().device, partition.mesh);
  memory.rank[Category::communication] =
      communicator_bytes(priced.setting().device, partition.mesh, partition.recipe.model.moe.has_value());
  memory.rank[Category::buffers] = input_bytes(partition);
  return memory;
}

}  // namespace llmtrain
