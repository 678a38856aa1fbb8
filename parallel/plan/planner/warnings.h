// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "parallel/plan/planner/figures.h"

namespace llmtrain {

// What a person would want to know of a plan that can be made: it does not fit, too few micro-batches, tensor ranks
// over nodes, a type that the device does not compute in, one sentence each, with what to do.
std::vector<std::string> plan_warnings(const PlanSources& sources, const std::vector<PlannedRank>& ranks);

}  // namespace llmtrain
