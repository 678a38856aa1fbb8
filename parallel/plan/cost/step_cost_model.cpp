// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/cost/step_cost_model.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "core/graph/graph.h"
#include "core/graph/operators/held_values.h"
#include "parallel/layout/emulated_machine.h"
#include "parallel/plan/cost/offload_cost.h"
#include "parallel/plan/cost/operator_cost.h"
#include "parallel/plan/cost/state_cost.h"
#include "parallel/plan/cost/state_transfers.h"

namespace llmtrain {
namespace {

PassCost& operator+=(PassCost& sum, const PassCost& cost) {
  sum.seconds += cost.seconds;
  sum.communication_seconds += cost.communication_seconds;
  sum.recompute_seconds += cost.recompute_seconds;
  sum.wires += cost.wires;
  return sum;
}

struct PricedBlock {
  StageCost cost;
  double saved = 0;  // bytes that it saves for the backward
};

// On an emulated device a pass takes at least the configured time of its layers.
void add_emulated_layers(const PricedLayout& priced, const Stage& stage, StageCost& cost) {
  const EmulatedPasses passes = emulated_passes(priced.recipe(), priced.graph(), stage.blocks);
  cost.forward.seconds = std::max(cost.forward.seconds, passes.forward_seconds);
  cost.backward.seconds = std::max(cost.backward.seconds, passes.backward_seconds);
}

// Where gradients in the compute type stay beside wider sums, every backward adds them and clears them; others it adds
// as the program says.
void add_gradient_sums(const PricedLayout& priced, std::size_t stage, StageCost& cost) {
  const Program& program = priced.program();
  double bytes = 0;
  for (const StateGroup& group : priced.partition.groups[stage]) {
    const double narrow = group.types.weight_bytes(), wide = group.types.gradient_bytes();
    const bool is_kept_beside = program.memory.keeps_compute_gradients && wide > narrow;
    // Both are read and written.
    const double of_element = is_kept_beside ? 2 * (narrow + wide) : program.traffic.gradient_sums * wide;
    bytes += of_element * static_cast<double>(group.elements());
  }
  if (bytes > 0) cost.backward.seconds += priced.roofline.seconds(priced.roofline.pass(bytes));
}

void add_data_parallel(const PricedLayout& priced, std::size_t stage, StageCost& cost) {
  for (const StateTransfer& transfer : state_transfers(priced, stage)) {
    switch (transfer.when) {
      case StateTransfer::When::reduction:
        cost.reduce_seconds += transfer.seconds;
        cost.reduce_wires += transfer.wires;
        break;
      case StateTransfer::When::last_reduction:
        cost.last_reduce_seconds += transfer.seconds;
        cost.last_reduce_wires += transfer.wires;
        break;
      case StateTransfer::When::gather:
        cost.gather_seconds += transfer.seconds;
        cost.gather_wires += transfer.wires;
        break;
    }
  }
  // One bucket per block, as frameworks bucket gradients.
  cost.buckets = static_cast<double>(priced.partition.stages[stage].blocks.size());
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void make_even(std::vector<StageCost>& stages) {
  for (PassCost StageCost::*pass : {&StageCost::forward, &StageCost::backward}) {
    std::vector<double> seconds;
    for (const StageCost& stage : stages) seconds.push_back((stage.*pass).seconds);
    for (StageCost& stage : stages) (stage.*pass).seconds = median(seconds);
  }
}

// Whether the tensors of two bundles have the same sizes.
bool are_alike(const Graph& graph, std::span<const std::size_t> one, std::span<const std::size_t> other) {
  return std::ranges::equal(
      one, other, [&](std::size_t a, std::size_t b) { return graph.values[a].features == graph.values[b].features; });
}

// Per cut, because some neighbours share a node and others do not, and cuts differ in what crosses them.
void add_transfers(const PricedLayout& priced, StepCosts& costs) {
  const Partition& partition = priced.partition;
  costs.transfer_seconds.resize(partition.stages.size());
  costs.transfer_wires.resize(partition.stages.size());
  if (partition.mesh.pipeline == 1) return;
  const auto ranks = static_cast<std::size_t>(partition.mesh.pipeline);
  // From the last rank to the first as much as from the one before it.
  const auto crosses = [&](std::size_t stage) {
    return partition.is_last(stage) ? partition.outgoing(stage - 1) : partition.outgoing(stage);
  };
  for (std::size_t stage = 0; stage < partition.stages.size(); ++stage) {
    if (stage >= ranks && are_alike(priced.graph(), crosses(stage), crosses(stage - ranks))) {
      costs.transfer_seconds[stage] = costs.transfer_seconds[stage - ranks];
      costs.transfer_wires[stage] = costs.transfer_wires[stage - ranks];
      continue;
    }
    const RankGroup neighbours =
        pipeline_neighbours(partition.mesh, static_cast<std::int64_t>(partition.rank_of(stage)));
    costs.transfer_seconds[stage] = transfer_seconds(priced, crosses(stage), neighbours);
    costs.transfer_wires[stage] = transfer_wires(priced, crosses(stage), neighbours);
  }
}

// Seconds of the update of the stage whose backward comes before on the same rank; 0 where stages are not updated one
// by one.
double update_before(const StepCosts& costs, const Partition& partition, std::size_t stage) {
  const std::size_t before = stage + static_cast<std::size_t>(partition.mesh.pipeline);
  return before < costs.stages.size() ? costs.stages[before].update_seconds : 0;
}

}  // namespace

StepCosts make_step_costs(const PricedLayout& priced) {
  const Partition& partition = priced.partition;
  const ClusterProfile& profile = priced.profile;
  const Graph& graph = priced.graph();
  // A model has few distinct blocks: pricing each once makes a plan independent of the number of layers.
  BlockCache<PricedBlock> blocks(graph);
  StepCosts costs;
  costs.optimizer_seconds = optimizer_seconds(priced);
  costs.stages.resize(partition.stages.size());
  if (partition.shape.updates_by_stage) divide_updates(partition, costs);
  for (std::size_t index = 0; index < partition.stages.size(); ++index) {
    StageCost& cost = costs.stages[index];
    double saved = 0;
    const Stage& stage = partition.stages[index];
    for (const std::size_t block : stage.blocks) {
      const PricedBlock& of_block = blocks.of(block, [&] {
        const OperatorList& operators = priced.operators.of(block);
        const Recompute recompute = priced.operators.recompute_of(block);
        return PricedBlock{block_cost(priced, operators, recompute), saved_bytes(operators, recompute)};
      });
      cost.forward += of_block.cost.forward;
      cost.backward += of_block.cost.backward;
      saved += of_block.saved;
    }
    for (const HeldValues& held :
         held_values(priced.operators, stage.blocks, stage.incoming, partition.outgoing(index)))
      saved -= held.repeated;
    add_emulated_layers(priced, stage, cost);
    add_gradient_sums(priced, index, cost);
    // After all that a pass computes, beside which these transfers run.
    add_offload(priced, index, kept_bytes(partition, priced.operators, index, saved),
                update_before(costs, partition, index), cost);
    add_data_parallel(priced, index, cost);
  }
  if (profile.program.stages.even && partition.shape.frozen_stages == 0) make_even(costs.stages);
  add_transfers(priced, costs);
  costs.step_overhead_seconds = profile.host.step_seconds;
  const double slowdown = profile.program.overlap.slowdown;
  costs.compute_slowdown = slowdown > 0 ? slowdown : profile.compute_slowdown;
  costs.overlap = partition.recipe.parallel.overlap;
  // parallel.overlap covers both: programs that overlap neither wait for every transfer.
  costs.blocking_transfers = !partition.recipe.parallel.overlap;
  return costs;
}

void divide_updates(const Partition& partition, StepCosts& costs) {
  const std::vector<double> seconds = seconds_by_stage(partition, costs.optimizer_seconds);
  for (std::size_t stage = 0; stage < seconds.size(); ++stage) costs.stages[stage].update_seconds = seconds[stage];
}

}  // namespace llmtrain
