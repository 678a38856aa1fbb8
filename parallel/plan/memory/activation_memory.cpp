// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/memory/activation_memory.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/graph/operators/held_values.h"
#include "core/graph/values.h"
#include "parallel/plan/cost/offload_cost.h"

namespace llmtrain {
namespace {

using Category = MemoryCategory;
using Event = MemoryEvent;

// What a stage's blocks have at once in one micro-batch: saved when all have run, and at the peak of each pass.
struct BlockPeaks {
  double saved = 0, forward = 0, backward = 0;
  double largest_output = 0;  // of one block
};

// With offload what blocks before have saved is on the host, but for the last one's, which is leaving or arriving
// (core/model/activation_offload.h).
BlockPeaks peaks_of(const Partition& partition, std::size_t index, BlockMemories& blocks) {
  const bool leaves = partition.recipe.memory.offload.activations;
  const Stage& stage = partition.stages[index];
  const std::vector<HeldValues> held =
      held_values(blocks.operators(), stage.blocks, stage.incoming, partition.outgoing(index));
  BlockPeaks peaks;
  double of_last = 0;
  for (std::size_t i = 0; i < stage.blocks.size(); ++i) {
    const BlockMemory& memory = blocks.of(stage.blocks[i]);
    const HeldValues values = held.empty() ? HeldValues{} : held[i];
    // Blocks that have run hold their saved activations while a later one is at its peak, in both directions.
    const double before = (leaves ? of_last : peaks.saved) - values.repeated;
    peaks.forward = std::max(peaks.forward, before + memory.peak.forward + values.beside_forward);
    peaks.backward = std::max(peaks.backward, before + memory.peak.backward + values.beside_backward);
    peaks.saved += memory.saved - values.repeated;
    of_last = memory.saved;
    peaks.largest_output = std::max(peaks.largest_output, memory.output);
  }
  return peaks;
}

// What is received from its arrival until its pass ends, what is sent from its pass's start until it is sent. `place`:
// the stage's index.
void hold_messages(const ScheduleShape& shape, std::size_t place, double from_before, double to_next,
                   StageMemory& stage) {
  const auto index = static_cast<std::int32_t>(place);
  stage.hold({Category::communication, from_before, Event::activation_arrives, Event::forward_ends});
  stage.hold({Category::communication, to_next, Event::forward_starts, Event::activation_is_sent});
  if (shape.sends_gradients(index + 1))
    stage.hold({Category::communication, to_next, Event::gradient_arrives, Event::backward_ends});
  if (shape.sends_gradients(index))
    stage.hold({Category::communication, from_before, Event::backward_starts, Event::gradient_is_sent});
}

// What one micro-batch takes where passes are CUDA graphs (parallel/engine/captured_passes.h): what a micro-batch takes
// of its forward and its backward at most is kept for the micro-batches after it, as are the values and gradients at
// the stage's cuts, from and to which others are copied. On one rank the copies are there until the next stage's pass,
// at most as long as the activations.
void hold_graphs(const Partition& partition, std::size_t index, BlockMemories& blocks, double held,
                 StageMemory& stage) {
  const bool is_one_rank = partition.mesh.pipeline == 1;
  const PassSetting& setting = blocks.operators().setting();
  const double from_before = values_bytes(*partition.graph, partition.stages[index].incoming, setting);
  const double to_next = values_bytes(*partition.graph, partition.outgoing(index), setting);
  const auto place = static_cast<std::int32_t>(index);
  const double back_before = partition.shape.sends_gradients(place) ? from_before : 0;
  const double back_next = partition.shape.sends_gradients(place + 1) ? to_next : 0;
  const BlockPeaks peaks = peaks_of(partition, index, blocks);
  const double saved = kept_bytes(partition, blocks.operators(), index, peaks.saved);
  const double most = std::max(peaks.forward, peaks.backward) - from_before - (is_one_rank ? 0 : to_next);
  const auto keep = [&](Category category, double bytes) {
    stage.hold({.category = category,
                .bytes = bytes * held,
                .begins = Event::forward_starts,
                .ends = Event::backward_ends,
                .is_kept = true});
  };
  keep(Category::activations, saved);
  keep(Category::buffers, std::max(0.0, most - saved) + from_before + to_next + back_before + back_next);
  if (!is_one_rank) return hold_messages(partition.shape, index, from_before * held, to_next * held, stage);
  stage.hold({Category::buffers, to_next * held, Event::forward_starts, Event::backward_ends});
  stage.hold({Category::buffers, back_before * held, Event::backward_starts, Event::backward_ends});
}

// What a block keeps where it does not gather again: whole inputs of products, of which it has a part without that.
double gathered_bytes(const OperatorList& operators, Recompute recompute, double tensor) {
  double bytes = 0;
  for (const Operator& item : operators) {
    if (!item.has_backward || is_repeated(item, recompute)) continue;
    for (const Exchange& exchange : item.exchanges)
      if (exchange.exposure == Exposure::gathered_again) bytes += exchange.bytes * (1 - 1 / tensor);
  }
  return bytes;
}

// Whole tensors that sequence parallelism scatters in a block's forward.
double scattered_bytes(const OperatorList& operators) {
  double bytes = 0;
  for (const Operator& item : operators)
    for (const Exchange& exchange : item.exchanges)
      if (exchange.direction == Direction::forward && exchange.axis == RankAxis::tensor &&
          exchange.collective == Collective::reduce_scatter)
        bytes += exchange.bytes;
  return bytes;
}

// What the gates of a block's networks become: of the kept input of their activation, which is gate and up, half.
double activated_gate_bytes(const Graph& graph, const OperatorList& operators, Recompute recompute) {
  if (!is_gated(graph.model.activation)) return 0;
  double bytes = 0;
  for (const Operator& item : operators)
    if (item.has_backward && item.name.ends_with(".activation") && !is_repeated(item, recompute))
      for (const SavedTensor& input : item.saved) bytes += input.bytes / 2;
  return bytes;
}

}  // namespace

const BlockMemory& BlockMemories::of(std::size_t block) {
  return cache_.of(block, [&] {
    const OperatorList& list = operators_.of(block);
    const Recompute recompute = operators_.recompute_of(block);
    const double output = output_bytes(operators_.graph(), block, operators_.setting());
    BlockMemory memory{saved_bytes(list, recompute), pass_peak(list, recompute, output), weight_bytes(block), output};
    double further = 0;
    if (facts_.keeps_gathered) further += gathered_bytes(list, recompute, static_cast<double>(partition_.mesh.tensor));
    if (facts_.blocks_ahead > 0) further += share_ahead() * scattered_bytes(list);
    if (facts_.keeps_activated_gate) further += activated_gate_bytes(operators_.graph(), list, recompute);
    memory.saved += further;
    memory.peak.forward += further;
    memory.peak.backward += further;
    return memory;
  });
}

// The share of the blocks that the host has launched before the device has run them.
double BlockMemories::share_ahead() const {
  if (partition_.mesh.pipeline > 1) return 0;
  return std::min(1.0, facts_.blocks_ahead / static_cast<double>(partition_.recipe.model.layers));
}

// Whole weights of the block on this rank, before ZeRO: what offload transfers at a time.
double BlockMemories::weight_bytes(std::size_t block) const {
  const Graph& graph = *partition_.graph;
  const double element = state_types(partition_.recipe.precision).weight_bytes();
  double bytes = 0;
  for (const std::size_t index : graph.blocks[block].parameters) {
    const Parameter& parameter = graph.parameters[index];
    bytes += (parameter.is_packed ? graph.model.lora->nf4_bytes() : element) *
             static_cast<double>(local_elements(parameter, operators_.setting().shards));
  }
  return bytes;
}

// What one micro-batch takes. A workspace is the most that is alive during the pass minus the activations saved after
// it, so that a pass's peak is the saved ones, the micro-batch's own included, and the workspace. Between stages of one
// rank (pipeline 1) a value that crosses cuts, and later its gradient, is saved by the stage that makes it. Values
// received from or sent to another rank are counted as communication while a pass runs, so the workspaces exclude them.
void hold_activations(const Partition& partition, std::size_t index, BlockMemories& blocks, double reserve,
                      StageMemory& stage) {
  const bool is_one_rank = partition.mesh.pipeline == 1;
  const Stage& placed = partition.stages[index];
  const PassSetting& setting = blocks.operators().setting();
  const double from_before = values_bytes(*partition.graph, placed.incoming, setting);
  const double to_next = values_bytes(*partition.graph, partition.outgoing(index), setting);
  const BlockPeaks peaks = peaks_of(partition, index, blocks);
  double saved = kept_bytes(partition, blocks.operators(), index, peaks.saved);
  // A layer that drops tokens has its whole input or gradient beside what it makes of the kept ones.
  const double whole = partition.recipe.training.token_dropping ? peaks.largest_output : 0;
  double elsewhere = from_before + (is_one_rank ? 0 : to_next);
  if (partition.recipe.memory.offload.activations) {
    stage.hold({Category::activations, saved, Event::forward_starts, Event::backward_ends, MemoryPlace::host});
    saved = 0;
    if (is_one_rank) elsewhere = 0;
  }
  const double forward = std::max(0.0, peaks.forward - elsewhere - saved) + whole;
  const double backward = std::max(0.0, peaks.backward - elsewhere - saved) + whole;
  const double held = 1 + reserve;
  if (partition.recipe.kernels.cuda_graphs) return hold_graphs(partition, index, blocks, held, stage);
  stage.hold({Category::activations, saved * held, Event::forward_starts, Event::backward_ends});
  stage.hold({Category::buffers, forward * held, Event::forward_starts, Event::forward_ends});
  stage.hold({Category::buffers, backward * held, Event::backward_starts, Event::backward_ends});
  if (!is_one_rank) hold_messages(partition.shape, index, from_before * held, to_next * held, stage);
}

}  // namespace llmtrain
