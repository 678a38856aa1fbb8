// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "parallel/plan/cost/cluster_profile.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain {

// What the figures of a report are computed from.
struct PlanSources {
  const Layout& layout;
  const ClusterProfile& profile;
  const StepCosts& costs;
  const StepMemory& memory;
  const Simulation& simulation;
};

// The rank whose passes take longest, the first of equals.
const RankSimulation& busiest_rank(const Simulation& simulation);

PlannedStep planned_step(const PlanSources& sources);
PlannedThroughput planned_throughput(const PlanSources& sources);
PlannedRun planned_run(const PlanSources& sources);
std::vector<PlannedRank> planned_ranks(const PlanSources& sources);

// `entries` with the exposed seconds of each: all of a collective inside a pass, and the simulated share of
// data-parallel traffic and of transfers.
std::vector<PlannedCommunication> planned_communication(const PlanSources& sources,
                                                        const std::vector<CommunicationEntry>& entries);

}  // namespace llmtrain
