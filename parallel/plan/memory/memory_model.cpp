// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/memory/memory_model.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/graph/block_fields.h"
#include "core/graph/graph.h"
#include "core/graph/operators/operators.h"
#include "core/graph/rope_frequencies.h"
#include "parallel/layout/state_pieces.h"
#include "parallel/plan/cost/muon_cost.h"
#include "parallel/plan/cost/muon_matrices.h"
#include "parallel/plan/cost/offload_cost.h"
#include "parallel/plan/cost/operator_cost.h"
#include "parallel/plan/memory/activation_memory.h"

namespace llmtrain {
namespace {

using Category = MemoryCategory;
using Event = MemoryEvent;

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

// What an update in the backward or an eviction frees: not of what ranks sum at the end of a step.
bool frees_gradients(const ScheduleShape& shape, const StateGroup& group) {
  const bool leaves = shape.evicts_gradients && !group.stays;
  return (shape.updates_by_stage || leaves) && !group.is_reduced_last(shape);
}

void add_group(const StateGroup& group, const ScheduleShape& shape, const MemoryFacts& facts, StageMemory& stage) {
  MemoryBytes& resident = stage.resident;
  const StateTypes& types = group.types;
  const auto whole = static_cast<double>(group.whole()), share = static_cast<double>(group.shard());
  // The ZeRO stage from which a state is sharded: 1 optimizer and master weights, 2 gradients, 3 weights.
  const auto held = [&](std::int64_t sharded_from) { return group.zero_stage >= sharded_from ? share : whole; };
  resident[Category::weights] += types.weight_bytes() * held(3);
  double gradients = types.gradient_bytes() * held(2);
  // Weights have the compute type.
  if (facts.keeps_compute_gradients && types.gradient_bytes() > types.weight_bytes())
    gradients += types.weight_bytes() * whole;
  Event begin = group.splits_gradients() ? Event::first_reduction_starts : Event::step_gradients_begin;
  // Those in FP8 are made of the sums when these are final.
  if (begin == Event::step_gradients_begin && group.is_fp8)
    begin = shape.reduces ? Event::sums_are_cast : Event::step_sums_are_cast;
  if (frees_gradients(shape, group))
    stage.hold({Category::gradients, gradients, begin,
                shape.evicts_gradients ? Event::gradients_have_left : Event::optimizer_ends});
  else
    resident[Category::gradients] += gradients;
  resident[Category::master_weights] += types.master_bytes() * held(1);
  resident[Category::optimizer] += types.moment_bytes() * held(1);
}

// The whole weights of ZeRO-3 exist only while they are used. A stage then has copies of those that other stages of its
// rank hold: what a backward reads stays until the step's end, once for all stages; others come and go with the last
// stage that reads them.
void hold_gathered(const Partition& partition, std::size_t index, StageMemory& stage) {
  double gathered = 0;
  bool gathers = false;
  for (const StateGroup& group : partition.groups[index]) {
    if (group.zero_stage < 3) continue;
    gathers = true;
    // A rank that shares them with no other has the whole already.
    const bool is_whole = group.stays && group.whole() == group.shard();
    if (!is_whole) gathered += group.types.weight_bytes() * static_cast<double>(group.whole());
  }
  if (!gathers) return;
  for (const LentParameter& lent : partition.lent) {
    const Parameter& parameter = partition.graph->parameters[lent.parameter];
    const auto elements = static_cast<double>(local_elements(parameter, shard_degrees(partition.mesh)));
    const double bytes = state_types(partition.recipe.precision).weight_bytes() * elements;
    if (lent.is_read_in_backward && index == lent.holder()) stage.resident[Category::buffers] += bytes;
    if (!lent.is_read_in_backward && index == lent.stages.back()) gathered += bytes;
  }
  stage.hold({Category::weights, gathered, Event::weights_are_gathered, Event::weights_are_freed});
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

// The most that the weights of two blocks take, or their gradients: one is in use while its neighbour is transferred.
double largest_in_motion(const Stage& stage, BlockMemories& blocks) {
  double largest = 0;
  for (const std::size_t block : stage.blocks) largest = std::max(largest, blocks.of(block).weights);
  return 2 * largest;
}

// The part of a stage's gradients that are whole at once if each block's are reduced as its backward ends.
double held_share(const Stage& stage, BlockMemories& blocks) {
  double all = 0;
  for (const std::size_t block : stage.blocks) all += blocks.of(block).weights;
  return all > 0 ? std::min(1.0, largest_in_motion(stage, blocks) / all) : 1;
}

// LibTorch takes a power of two of bytes for memory that is pinned.
double pinned_bytes(double bytes) {
  return bytes > 0 ? static_cast<double>(std::bit_ceil(static_cast<std::uint64_t>(bytes))) : 0;
}

// What updates read and write piece by piece: in memory are the pieces that pass alone, once for all stages of a rank.
void hold_disk(const Partition& partition, std::size_t index, bool is_cpu, StageMemory& stage) {
  if (std::cmp_greater_equal(index, partition.mesh.pipeline)) return;
  const StateFile file = state_file(partition, static_cast<std::int64_t>(index), !is_cpu);
  stage.disk = static_cast<double>(file.bytes);
  (is_cpu ? stage.resident : stage.host_resident)[Category::buffers] += static_cast<double>(file.buffers());
  if (is_cpu) return;
  const PieceMemory pieces = piece_memory(partition, static_cast<std::int64_t>(index));
  stage.host_resident[Category::buffers] +=
      static_cast<double>(pieces.count) * pinned_bytes(static_cast<double>(pieces.bytes));
}

// What a group has elsewhere leaves the device.
void offload_group(const Partition& partition, const StateGroup& group, StageMemory& stage) {
  if (group.stays) return;
  const OffloadRecipe& wanted = partition.recipe.memory.offload;
  const StateTypes& types = group.types;
  const double owned = owned_elements(group);
  const bool is_host = wanted.optimizer == StatesPlace::host;
  // What is copied to the device for the update.
  const bool is_pinned = partition.recipe.memory.swaps_states() || group.is_muon;
  const auto add_to_host = [&](Category category, double bytes) {
    if (is_host) stage.host_resident[category] += is_pinned ? pinned_bytes(bytes) : bytes;
  };
  const auto move = [&](Category category, double bytes_of_element) {
    const double bytes = bytes_of_element * owned;
    stage.resident[category] -= bytes;
    add_to_host(category, bytes);
  };
  // The update then runs on the host: neither master weights nor moments are needed on the device.
  if (wanted.moves_states()) {
    move(Category::master_weights, types.master_bytes());
    // Each in memory of its own.
    if (types.is_trained) move(Category::optimizer, element_bytes(types.first_moment));
    if (types.is_trained && types.second_moment) move(Category::optimizer, element_bytes(*types.second_moment));
  }
  // Weights that are their own master have one there all the same, unless they are there themselves.
  if (types.is_trained && !types.master && !wanted.weights)
    add_to_host(Category::master_weights, types.weight_bytes() * owned);
  stage.host_resident[Category::gradients] += pinned_bytes(evicted_bytes(partition, group));
  if (!wanted.weights) return;
  const double shard = types.weight_bytes() * static_cast<double>(group.shard());
  stage.resident[Category::weights] -= shard;
  stage.host_resident[Category::weights] += pinned_bytes(shard);
}

// Up to ZeRO-1 whole gradients are resident.
void hold_gradients(const PricedLayout& priced, std::size_t index, Fp8Layers fp8, BlockMemories& blocks,
                    StageMemory& stage) {
  const Partition& partition = priced.partition;
  const bool is_own = priced.setting().program.is_own();
  const bool is_widened = fp8 == Fp8Layers::after_fallback && partition.recipe.precision.gradients_may_fall_back();
  double unreduced = 0, partial = 0, summed = 0, cast = 0, uncast = 0, flat = 0;
  // Without data ranks nothing is reduced before the optimizer's step.
  bool sums_step = !partition.shape.reduces;
  for (const StateGroup& group : partition.groups[index]) {
    if (!group.splits_gradients() && !group.is_fp8 && !group.types.accumulator) continue;
    const auto whole = static_cast<double>(group.whole());
    if (group.is_fp8) flat += group.types.gradient_bytes() * whole;
    const bool sums = is_own && group.types.accumulator;
    if (is_widened && group.types.accumulator)
      uncast += element_bytes(*group.types.accumulator) * static_cast<double>(group.elements());
    // Whole gradients are accumulated in a type of their own, and only those that the reduction reads are FP8.
    if (sums) summed += element_bytes(*group.types.accumulator) * whole;
    if (sums && group.accumulates_step(partition.shape)) {
      // Cast in the optimizer's step, one group after another, as their sums are released.
      sums_step = true;
    } else if (group.splits_gradients()) {
      (sums ? cast : unreduced) += group.types.gradient_bytes() * whole;
      partial += group.types.gradient_bytes() * static_cast<double>(group.shard());
    }
  }
  // Other programs reduce FP8 gradients out of one flat buffer of their own (Azure/MS-AMP, msamp/nn/distributed.py).
  // With ZeRO-2 and -3 these are the whole gradients.
  if (!is_own && partition.mesh.data > 1 && unreduced == 0) stage.resident[Category::communication] += flat;
  if (priced.program().memory.reduces_by_block && partition.zero_stage() == 2)
    unreduced *= held_share(partition.stages[index], blocks);
  const Event begin = sums_step ? Event::step_sums_begin : Event::sums_begin;
  const Event are_cast = sums_step ? Event::step_sums_are_cast : Event::sums_are_cast;
  const Event end = sums_step ? Event::step_sums_end : Event::sums_end;
  stage.hold({Category::gradients, unreduced, Event::gradients_begin, Event::gradients_are_reduced});
  stage.hold({Category::gradients, summed, begin, end});
  stage.hold({Category::gradients, cast, are_cast, Event::gradients_are_reduced});
  // Those of layers that have left FP8, in other programs throughout the step.
  if (is_own) stage.hold({Category::gradients, uncast, are_cast, Event::optimizer_ends});
  if (!is_own) stage.resident[Category::gradients] += uncast;
  // The shard that a later reduction receives before it is added to the first one's.
  stage.hold({Category::gradients, partial, Event::later_reduction_starts, Event::later_gradients_are_reduced});
}

// Slices of experts that a rank joins, and their gradients, as ranks exchange them and as the products take them: one
// group after another. The next stage's are on their way at the instant at which these are joined; their gradients are
// not there yet where another stage or the head has begun those of the stage.
void hold_slices_twice(const Partition& partition, std::size_t index, StageMemory& stage) {
  double weights = 0, gradients = 0;
  for (const StateGroup& group : partition.groups[index]) {
    if (group.joined == 1) continue;
    const auto whole = static_cast<double>(group.whole());
    weights = std::max(weights, whole * group.types.weight_bytes());
    gradients = std::max(gradients, whole * group.types.gradient_bytes());
  }
  stage.hold({Category::gradients, gradients, Event::gradients_are_packed, Event::gradients_are_packed});
  stage.hold({Category::gradients, -gradients, Event::weights_are_joined_early, Event::weights_are_joined_early});
  for (const Event joined : {Event::weights_are_joined, Event::weights_are_joined_early})
    stage.hold({Category::weights, weights, joined, joined, MemoryPlace::device, Event::weights_are_gathered});
}

// The rank's part of the global batch.
double samples_of(const Partition& partition) {
  return static_cast<double>(partition.recipe.batch.global) / static_cast<double>(partition.mesh.data);
}

// Images, which are large, are on the ranks of those stages alone that read their pixels (fp32) or labels (int64).
double image_bytes(const Partition& partition, std::size_t stage) {
  const auto& image = partition.recipe.model.image;
  if (!image) return 0;
  const FieldSet fields = fields_read(*partition.graph, partition.stages[stage].blocks);
  double bytes = 0;
  if (fields[index_of(BatchField::pixels)])
    bytes += 4 * static_cast<double>(image->channels * image->size * image->size);
  if (fields[index_of(BatchField::label)]) bytes += 8;
  return samples_of(partition) * bytes;
}

StageMemory make_stage(const PricedLayout& priced, std::size_t index, Fp8Layers fp8, BlockMemories& blocks) {
  const Partition& partition = priced.partition;
  const bool is_cpu = priced.setting().program.device == ComputeDevice::cpu;
  StageMemory stage = model_states(partition, index, priced.program());
  if (is_cpu) stage.resident[Category::buffers] += checkpoint_copy_bytes(partition, index);
  hold_gradients(priced, index, fp8, blocks, stage);
  stage.resident[Category::buffers] += image_bytes(partition, index);
  hold_slices_twice(partition, index, stage);
  if (partition.recipe.memory.offload.optimizer == StatesPlace::disk) hold_disk(partition, index, is_cpu, stage);
  for (const StateGroup& group : partition.groups[index]) offload_group(partition, group, stage);
  hold_activations(partition, index, blocks, is_cpu ? 0 : priced.program().memory.allocator_reserve, stage);
  return stage;
}

// A sample of tokens has their ids and targets (int64 each).
double sample_bytes(const Recipe& recipe) {
  constexpr double bytes_per_token = 2 * 8;
  return recipe.model.image ? 0 : bytes_per_token * static_cast<double>(recipe.batch.sequence_length);
}

// The samples of the rank's part of the global batch, and RoPE's fp32 tables.
double input_bytes(const Partition& partition) {
  const double ids = samples_of(partition) * sample_bytes(partition.recipe);
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

StageMemory model_states(const Partition& partition, std::size_t stage, const Program& program) {
  StageMemory states;
  states.holdings.reserve(16);  // a search makes those of thousands of layouts
  for (const StateGroup& group : partition.groups[stage]) add_group(group, partition.shape, program.memory, states);
  hold_gathered(partition, stage, states);
  return states;
}

double checkpoint_copy_bytes(const Partition& partition, std::size_t stage) {
  const CheckpointRecipe& checkpoint = partition.recipe.checkpoint;
  if (!checkpoint.async || checkpoint.every == 0) return 0;
  const Mesh& mesh = partition.mesh;
  double bytes = 0;
  for (const StateGroup& group : partition.groups[stage]) {
    // One of the ranks of a pipeline that hold the same writes it.
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
  const Holding workspace{Category::buffers, muon_workspace(priced.partition, priced.setting().program.device),
                          Event::optimizer_starts, Event::optimizer_ends};
  const auto hold = [&](const Holding& holding) {
    if (!priced.partition.shape.updates_by_stage) return memory.rank_holdings.push_back(holding);
    // One stage after another.
    for (StageMemory& stage : memory.stages) stage.hold(holding);
  };
  hold(workspace);
  Holding pieces{Category::buffers, 0, Event::optimizer_starts, Event::optimizer_ends};
  for (std::int64_t rank = 0; rank < priced.mesh().pipeline; ++rank)
    pieces.bytes = std::max(pieces.bytes, swapped_states(priced.partition, rank).workspace);
  if (pieces.bytes > 0) hold(pieces);
  return memory;
}

StepMemory make_pass_memory(const PricedLayout& priced, Fp8Layers fp8) {
  const Partition& partition = priced.partition;
  PassSetting fallen_back = priced.setting();
  const bool falls_back = fp8 == Fp8Layers::after_fallback && partition.recipe.precision.products_may_fall_back();
  fallen_back.numbers.keeps_compute_inputs = falls_back;
  const OperatorLists fallen_back_operators(priced.graph(), fallen_back);
  BlockMemories blocks(partition, falls_back ? fallen_back_operators : priced.operators, priced.program().memory);
  StepMemory memory;
  for (std::size_t stage = 0; stage < partition.stages.size(); ++stage)
    memory.stages.push_back(make_stage(priced, stage, fp8, blocks));
  add_lent_gradients(partition, memory);
  // Not per stage: these exist once per process.
  memory.rank[Category::framework] = framework_bytes(priced.setting().program.device, partition.mesh);
  memory.rank[Category::communication] =
      communicator_bytes(priced.setting().program.device, partition.mesh, partition.recipe.model.moe.has_value());
  memory.rank[Category::buffers] = input_bytes(partition);
  return memory;
}

}  // namespace llmtrain
