// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/planner.h"

#include <algorithm>
#include <utility>

#include "parallel/plan/cost/shared_devices.h"
#include "parallel/plan/cost/step_cost_model.h"
#include "parallel/plan/memory/memory_model.h"
#include "parallel/plan/planner/figures.h"
#include "parallel/plan/planner/warnings.h"

namespace llmtrain {
namespace {

void fill_report(const ClusterProfile& profile, Plan& plan) {
  const PlanSources sources{*plan.layout, profile, plan.costs, plan.memory, plan.simulation};
  PlanReport& report = plan.report;
  report.recipe = plan.layout->recipe();
  report.profile = profile.name;
  report.device_memory_bytes = profile.device.memory_bytes;
  report.total_parameters = plan.layout->graph().parameter_count();
  report.active_parameters = plan.layout->graph().active_parameter_count();
  report.embedding_parameters = plan.layout->graph().embedding_parameter_count();
  report.mesh = plan.layout->mesh();
  report.step = planned_step(sources);
  report.throughput = planned_throughput(sources);
  report.run = planned_run(sources);
  report.ranks = planned_ranks(sources);
  report.communication = planned_communication(sources, communication_of(*plan.layout, profile));
  report.warnings = plan_warnings(sources, report.ranks);
  // Without a stated limit nothing can be said against the plan.
  report.fits = profile.device.memory_bytes <= 0 || std::ranges::all_of(report.ranks, [&](const PlannedRank& rank) {
                  return rank.peak_bytes <= profile.device.memory_bytes;
                });
}

}  // namespace

KernelSet kernel_set(const Recipe& recipe, const ClusterProfile& profile) {
  const DeviceKind asked = recipe.cluster.device;
  const DeviceKind kind = asked == DeviceKind::automatic ? profile.device.kind : asked;
  return kind == DeviceKind::cuda ? KernelSet::cuda : KernelSet::cpu;
}

std::shared_ptr<const Layout> lay_out(const Recipe& recipe, const ClusterProfile& cluster) {
  return std::make_shared<const Layout>(Partition::make(recipe, devices_per_node(recipe, cluster)));
}

Plan make_plan(std::shared_ptr<const Layout> layout, const ClusterProfile& cluster, Timeline timeline) {
  Plan plan;
  plan.layout = std::move(layout);
  const Partition& partition = plan.layout->partition();
  // The whole plan, memory limit included, refers to a rank's share of its device.
  const ClusterProfile profile = share_devices(cluster, partition.mesh);
  plan.costs = make_step_costs(partition, profile);
  plan.memory = make_step_memory(partition, kernel_set(partition.recipe, profile));
  plan.simulation = simulate(plan.layout->schedule(), plan.costs, plan.memory, timeline);
  fill_report(profile, plan);
  return plan;
}

}  // namespace llmtrain
