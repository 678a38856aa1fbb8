// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/figures.h"

#include <algorithm>

#include "core/graph/block_cache.h"
#include "core/graph/operators.h"

namespace llmtrain {
namespace {

double tokens_per_step(const Recipe& recipe) {
  return static_cast<double>(recipe.batch.global) * static_cast<double>(recipe.batch.sequence_length);
}

// Forward FLOPs per token that recompute repeats. On the unsharded graph: sharding does not change the whole model's
// FLOPs.
double recomputed_flops(const Partition& partition) {
  const Graph& graph = *partition.graph;
  PassSetting setting;
  setting.sequence_length = partition.recipe.batch.sequence_length;
  setting.attention = attention_method(graph.model, partition.recipe.kernels.attention);
  const Recompute recompute = partition.recipe.memory.recompute;
  BlockCache<double> repeated(graph);
  double flops = 0;
  for (std::size_t block = 0; block < graph.blocks.size(); ++block)
    flops += repeated.of(block, [&] { return repeated_flops(block_operators(graph, block, setting), recompute); });
  return flops / static_cast<double>(setting.sequence_length);
}

double host_bytes(const PlanSources& sources, std::int64_t pipeline_rank) {
  double bytes = 0;
  const auto ranks = static_cast<std::size_t>(sources.layout.mesh().pipeline);
  const auto micros = static_cast<double>(sources.layout.partition().shape.micro_batches);
  for (auto stage = static_cast<std::size_t>(pipeline_rank); stage < sources.memory.stages.size(); stage += ranks) {
    const StageMemory& memory = sources.memory.stages[stage];
    bytes += memory.host_resident.total() + memory.host_activations * micros;
  }
  return bytes;
}

// The simulator subtracts times: a difference of zero may come out slightly negative by rounding.
double exposed_data_seconds(const RankSimulation& rank) { return std::max(0.0, rank.exposed_data_seconds); }

double total_seconds(const std::vector<CommunicationEntry>& entries, Purpose purpose) {
  double seconds = 0;
  for (const CommunicationEntry& entry : entries)
    if (entry.purpose == purpose) seconds += entry.seconds;
  return seconds;
}

}  // namespace

const RankSimulation& busiest_rank(const Simulation& simulation) {
  return *std::ranges::max_element(simulation.ranks, {}, &RankSimulation::busy_seconds);
}

PlannedStep planned_step(const PlanSources& sources) {
  const RankSimulation& rank = busiest_rank(sources.simulation);
  PlannedStep step;
  step.seconds = sources.simulation.step_seconds;
  // The slowdown of passes by concurrent collectives counts as exposed communication, not as compute.
  step.compute_seconds = rank.busy_seconds - rank.communication_seconds - rank.slowed_seconds;
  step.recompute_seconds = rank.recompute_seconds;
  step.tensor_communication_seconds = rank.communication_seconds;
  step.optimizer_seconds = rank.optimizer_seconds;
  step.overhead_seconds = sources.costs.step_overhead_seconds;
  step.bubble_fraction = sources.simulation.bubble_fraction;
  step.exposed_communication_seconds =
      rank.communication_seconds + exposed_data_seconds(rank) + rank.exposed_transfer_seconds;
  return step;
}

PlannedThroughput planned_throughput(const PlanSources& sources) {
  const Recipe& recipe = sources.layout.recipe();
  const auto devices = static_cast<double>(sources.layout.mesh().world());
  const double tokens = tokens_per_step(recipe);
  const double model_flops = sources.layout.graph().training_flops_per_token(recipe.batch.sequence_length) * tokens;
  const double hardware_flops = model_flops + recomputed_flops(sources.layout.partition()) * tokens;
  const double seconds = sources.simulation.step_seconds;
  const double peak = peak_flops(sources.profile, recipe.precision);
  PlannedThroughput throughput;
  throughput.tokens_per_second = tokens / seconds;
  throughput.tokens_per_second_per_device = tokens / seconds / devices;
  throughput.samples_per_second = static_cast<double>(recipe.batch.global) / seconds;
  throughput.model_tflops_per_device = model_flops / seconds / devices / 1e12;
  throughput.hardware_tflops_per_device = hardware_flops / seconds / devices / 1e12;
  throughput.mfu = model_flops / seconds / devices / peak;
  throughput.hfu = hardware_flops / seconds / devices / peak;
  return throughput;
}

PlannedRun planned_run(const PlanSources& sources) {
  const auto steps = static_cast<double>(sources.layout.recipe().training.steps);
  PlannedRun run;
  run.tokens = steps * tokens_per_step(sources.layout.recipe());
  run.seconds = steps * sources.simulation.step_seconds;
  // Ranks that share a CPU share its price too.
  const double devices = static_cast<double>(sources.layout.mesh().world()) / sources.profile.ranks_per_device;
  run.device_hours = run.seconds / 3600 * devices;
  if (const auto& price = sources.profile.price_per_device_hour) run.price = *price * run.device_hours;
  return run;
}

std::vector<PlannedRank> planned_ranks(const PlanSources& sources) {
  const Mesh& mesh = sources.layout.mesh();
  // Global ranks are ordered tensor × context × data × pipeline, so each pipeline rank is one contiguous block.
  const std::int64_t alike = mesh.data * mesh.context * mesh.tensor;
  std::vector<PlannedRank> ranks;
  for (std::int64_t index = 0; index < mesh.pipeline; ++index) {
    const RankSimulation& simulated = sources.simulation.ranks[static_cast<std::size_t>(index)];
    const auto& instructions = sources.layout.schedule().ranks[static_cast<std::size_t>(index)].instructions;
    PlannedRank rank;
    rank.rank = index * alike;
    rank.count = alike;
    rank.pipeline_rank = index;
    rank.peak_bytes = simulated.peak_bytes;
    rank.bytes = simulated.high_water;
    rank.host_bytes = host_bytes(sources, index);
    rank.peak_instruction = to_text(instructions[static_cast<std::size_t>(simulated.peak_instruction)]);
    ranks.push_back(rank);
  }
  return ranks;
}

std::vector<PlannedCommunication> planned_communication(const PlanSources& sources,
                                                        const std::vector<CommunicationEntry>& entries) {
  const double data_seconds = total_seconds(entries, Purpose::data_parallel);
  const double transfer_seconds = total_seconds(entries, Purpose::pipeline);
  const RankSimulation& busiest = busiest_rank(sources.simulation);
  std::vector<PlannedCommunication> planned;
  for (const CommunicationEntry& entry : entries) {
    // The simulator knows exposed time per stream, not per tensor: it is split in proportion to each entry's time.
    double share = 1;
    if (entry.purpose == Purpose::data_parallel)
      share = data_seconds > 0 ? std::min(1.0, exposed_data_seconds(busiest) / data_seconds) : 0;
    if (entry.purpose == Purpose::pipeline)
      share = transfer_seconds > 0 ? std::min(1.0, busiest.exposed_transfer_seconds / transfer_seconds) : 0;
    planned.push_back({entry, share * entry.seconds});
  }
  return planned;
}

}  // namespace llmtrain
