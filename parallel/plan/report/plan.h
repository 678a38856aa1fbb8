// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "parallel/layout/layout.h"
#include "parallel/plan/report/plan_report.h"
#include "parallel/plan/simulator/simulator.h"
#include "parallel/plan/simulator/step_costs.h"
#include "parallel/plan/simulator/step_memory.h"

namespace llmtrain {

// The report together with the data it was computed from, which the page and the trace need.
struct Plan {
  PlanReport report;
  std::shared_ptr<const Layout> layout;
  StepCosts costs;
  StepMemory memory;
  Simulation simulation;  // with its timeline if that was requested
};

}  // namespace llmtrain
