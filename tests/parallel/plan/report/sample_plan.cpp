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
  costs.transfer_seconds.assign(static_cast<std::size_t>(shape.stages()), 1e-4);
  costs.optimizer_seconds.assign(static_cast<std::size_t>(shape.pipeline), 5e-4);
  costs.step_overhead_seconds = 3e-4;
  costs.compute_slowdown = 0.1;
  return costs;
}

StepMemory sample_memory(const ScheduleShape& shape) {
  using Category = MemoryCategory;
  using Event = MemoryEvent;
  StepMemory memory;
  for (std::int32_t i = 0; i < shape.stages(); ++i) {
    StageMemory stage;
    stage.resident[Category::weights] = 120 * mib;
    stage.resident[Category::gradients] = 60 * mib;
    stage.resident[Category::master_weights] = 90 * mib;
    stage.resident[Category::optimizer] = 180 * mib;
    stage.hold({Category::weights, 240 * mib, Event::weights_are_gathered, Event::weights_are_freed});
    stage.hold({Category::gradients, 240 * mib, Event::gradients_begin, Event::gradients_are_reduced});
    stage.hold({Category::activations, 150 * mib, Event::forward_starts, Event::backward_ends});
    stage.hold({Category::buffers, 60 * mib, Event::forward_starts, Event::forward_ends});
    stage.hold({Category::buffers, 200 * mib, Event::backward_starts, Event::backward_ends});
    const bool has_previous = shape.pipeline > 1 && i > 0, has_next = shape.pipeline > 1 && i + 1 < shape.stages();
    const double with_previous = has_previous ? 20 * mib : 0, with_next = has_next ? 20 * mib : 0;
    stage.hold({Category::communication, with_previous, Event::activation_arrives, Event::forward_ends});
    stage.hold({Category::communication, with_previous, Event::backward_starts, Event::gradient_is_sent});
    stage.hold({Category::communication, with_next, Event::forward_starts, Event::activation_is_sent});
    stage.hold({Category::communication, with_next, Event::gradient_arrives, Event::backward_ends});
    memory.stages.push_back(stage);
  }
  memory.rank[Category::framework] = 700 * mib;
  memory.rank_holdings = {{Category::buffers, 50 * mib, Event::optimizer_starts, Event::optimizer_ends}};
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
