// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/cut_steps.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/recipe/step_shapes.h"
#include "parallel/plan/cost/step_cost_model.h"
#include "parallel/plan/simulator/simulator.h"

namespace llmtrain {
namespace {

constexpr std::size_t most_simulations = 17;

double step_seconds(const Plan& plan, const ClusterProfile& profile, const StepShape& shape) {
  const BatchRecipe& whole = plan.layout->recipe().batch;
  if (shape == StepShape{whole.micro, whole.sequence_length, 0, whole.global}) return plan.simulation.step_seconds;
  const Layout layout = plan.layout->of_batch(shape.global_batch);
  Partition partition = layout.partition();
  BatchRecipe& batch = partition.recipe.batch;
  batch.micro = shape.sequences;
  batch.sequence_length = shape.sequence_length;
  partition.kept_tokens = shape.kept_tokens;
  return simulate(layout.schedule(), make_step_costs({partition, profile}), plan.memory).step_seconds;
}

// Step times of runs 0 … last, those between the simulated ones on lines.
std::vector<double> seconds_of_runs(const Plan& plan, const ClusterProfile& profile,
                                    const std::vector<StepShapes::Run>& runs) {
  const std::size_t last = runs.size() - 1, pieces = std::min(last, most_simulations - 1);
  std::vector<double> seconds{step_seconds(plan, profile, runs.front().shape)};
  for (std::size_t piece = 1; piece <= pieces; ++piece) {
    const std::size_t begin = seconds.size() - 1, end = piece * last / pieces;
    const double from = seconds.back(), to = step_seconds(plan, profile, runs[end].shape);
    for (std::size_t run = begin + 1; run <= end; ++run)
      seconds.push_back(std::lerp(from, to, static_cast<double>(run - begin) / static_cast<double>(end - begin)));
  }
  return seconds;
}

}  // namespace

RunWork work_of_run(const Plan& plan, const ClusterProfile& profile) {
  const Recipe& recipe = plan.layout->recipe();
  const std::int64_t steps = recipe.training.steps;
  std::vector<StepShapes::Run> runs = StepShapes(recipe).runs();
  std::erase_if(runs, [&](const StepShapes::Run& run) { return run.first_step >= steps; });
  const std::vector<double> seconds = seconds_of_runs(plan, profile, runs);
  RunWork work;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::int64_t end = i + 1 < runs.size() ? runs[i + 1].first_step : steps;
    const auto count = static_cast<double>(end - runs[i].first_step);
    work.tokens += count * static_cast<double>(tokens_of_step(recipe, runs[i].shape));
    work.seconds += count * seconds[i];
  }
  return work;
}

}  // namespace llmtrain
