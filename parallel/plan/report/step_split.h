// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

#include "parallel/plan/report/plan_report.h"

namespace llmtrain {

// Where the busiest rank's time goes. The parts are disjoint: compute excludes recompute, and exposed communication
// excludes collectives inside passes.
enum class StepPart {
  compute,
  recompute,
  communication_in_passes,
  bubble,
  exposed_communication,
  optimizer,
  overhead,
};
constexpr std::size_t step_parts = 7;

// Fraction of a step below which a part is rounding error and is not shown.
constexpr double negligible_share = 1e-6;

struct StepShare {
  StepPart part{};
  std::string_view label;
  double seconds = 0;
};

// In the order of StepPart, zeros included. The seconds sum to the step's unless the other parts exceed it; then the
// bubble is 0.
std::array<StepShare, step_parts> split_step(const PlannedStep& step);

}  // namespace llmtrain
