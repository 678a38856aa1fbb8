// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/planner.h"

#include <algorithm>

#include "core/graph/graph.h"
#include "parallel/plan/cost/shared_devices.h"
#include "parallel/plan/cost/step_cost_model.h"
#include "parallel/plan/memory/memory_model.h"
#include "parallel/plan/planner/figures.h"
#include "parallel/plan/planner/setting.h"
#include "parallel/plan/planner/warnings.h"
#include "parallel/plan/schedule_check.h"

namespace llmtrain {
namespace {

void fill_report(Plan& plan, const Graph& graph, const PlanSetting& setting, const ClusterProfile& profile) {
  PlanReport& report = plan.report;
  const PlanSources sources{report.recipe, graph,      setting.mesh, profile,
                            plan.schedule, plan.costs, plan.memory,  plan.simulation};
  report.profile = profile.name;
  report.device_memory_bytes = profile.device.memory_bytes;
  report.total_parameters = graph.parameter_count();
  report.active_parameters = graph.active_parameter_count();
  report.embedding_parameters = graph.embedding_parameter_count();
  report.mesh = setting.mesh;
  report.step = planned_step(sources);
  report.throughput = planned_throughput(sources);
  report.run = planned_run(sources);
  report.ranks = planned_ranks(sources);
  report.communication = planned_communication(
      sources, communication_of(report.recipe, graph, setting.mesh, setting.stages, plan.schedule, profile));
  report.warnings = plan_warnings(sources, report.ranks);
  report.fits = profile.device.memory_bytes <= 0 || std::ranges::all_of(report.ranks, [&](const PlannedRank& rank) {
                  return rank.peak_bytes <= profile.device.memory_bytes;
                });
}

}  // namespace

Plan make_plan(const Recipe& recipe, const ClusterProfile& cluster, Timeline timeline) {
  Plan plan;
  const ClusterProfile profile = share_devices(cluster, recipe);
  plan.report.recipe = recipe;
  const Graph graph = Graph::build(recipe.model);
  const PlanSetting setting = make_setting(recipe, graph, profile);
  plan.schedule = make_schedule(setting.shape);
  check(plan.schedule, plan.schedule.shape.micro_batches);
  plan.costs = make_step_costs(recipe, graph, setting.mesh, setting.stages, profile);
  plan.memory = make_step_memory(recipe, graph, setting.mesh, setting.stages, setting.kernels);
  plan.simulation = simulate(plan.schedule, plan.costs, plan.memory, timeline);
  fill_report(plan, graph, setting, profile);
  return plan;
}

}  // namespace llmtrain
