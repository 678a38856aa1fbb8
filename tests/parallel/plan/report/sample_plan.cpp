// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/plan/report/sample_plan.h"

#include "tests/parallel/plan/report/sample_report.h"

namespace llmtrain::test {
namespace {

constexpr double mib = 1024.0 * 1024;

StepCosts sample_costs(const ScheduleShape& shape) {
  StepCosts costs;
  const StageCost stage{.forward = {.seconds = 1e-3, .communication_seconds = 1e-4},
                        .backward = {.seconds = 2e-3, .communication_seconds = 2e-4},
                        .gather_seconds = 8e-4,
                        .reduce_seconds = 8e-4};
  costs.stages.assign(static_cast<std::size_t>(shape.stages()), stage);
  costs.transfer_seconds.assign(static_cast<std::size_t>(shape.pipeline), 1e-4);
  costs.optimizer_seconds.assign(static_cast<std::size_t>(shape.pipeline), 5e-4);
  costs.step_overhead_seconds = 3e-4;
  costs.compute_slowdown = 0.1;
  return costs;
}

StepMemory sample_memory(const ScheduleShape& shape) {
  StageMemory stage;
  stage.resident[MemoryCategory::weights] = 120 * mib;
  stage.resident[MemoryCategory::gradients] = 60 * mib;
  stage.resident[MemoryCategory::master_weights] = 90 * mib;
  stage.resident[MemoryCategory::optimizer] = 180 * mib;
  stage.gathered_weights = 240 * mib;
  stage.unreduced_gradients = 240 * mib;
  stage.saved_activations = 150 * mib;
  stage.forward_workspace = 60 * mib;
  stage.backward_workspace = 200 * mib;
  stage.boundary_activation = 20 * mib;
  StepMemory memory;
  memory.stages.assign(static_cast<std::size_t>(shape.stages()), stage);
  memory.rank[MemoryCategory::framework] = 700 * mib;
  memory.optimizer_workspace = 50 * mib;
  return memory;
}

void report_ranks(Plan& plan) {
  plan.report.ranks.clear();
  for (std::size_t i = 0; i < plan.simulation.ranks.size(); ++i) {
    const RankSimulation& simulated = plan.simulation.ranks[i];
    PlannedRank rank;
    rank.rank = static_cast<std::int64_t>(i) * 8;
    rank.count = 8;
    rank.pipeline_rank = static_cast<std::int64_t>(i);
    rank.peak_bytes = simulated.peak_bytes;
    rank.bytes = simulated.high_water;
    rank.peak_instruction =
        to_text(plan.layout->schedule().ranks[i].instructions[static_cast<std::size_t>(simulated.peak_instruction)]);
    plan.report.ranks.push_back(rank);
  }
}

}  // namespace

Plan sample_plan(const ScheduleShape& shape) {
  Plan plan;
  plan.report = sample_report();
  plan.report.device_memory_bytes = 10240 * mib;
  plan.report.suggestions.clear();
  Partition partition;
  partition.shape = shape;
  plan.layout = std::make_shared<const Layout>(std::move(partition));
  plan.costs = sample_costs(shape);
  plan.memory = sample_memory(shape);
  plan.simulation = simulate(plan.layout->schedule(), plan.costs, plan.memory, Timeline::record);
  const RankSimulation& first = plan.simulation.ranks.front();
  plan.report.step = {.seconds = plan.simulation.step_seconds,
                      .compute_seconds = first.busy_seconds - first.communication_seconds - first.slowed_seconds,
                      .recompute_seconds = first.recompute_seconds,
                      .tensor_communication_seconds = first.communication_seconds,
                      .optimizer_seconds = first.optimizer_seconds,
                      .overhead_seconds = plan.costs.step_overhead_seconds,
                      .bubble_fraction = plan.simulation.bubble_fraction,
                      .exposed_communication_seconds = first.communication_seconds + first.exposed_data_seconds};
  report_ranks(plan);
  for (const PlannedRank& rank : plan.report.ranks)
    if (rank.peak_bytes > plan.report.device_memory_bytes) plan.report.fits = false;
  return plan;
}

}  // namespace llmtrain::test
