// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "parallel/plan/planner/figures.h"

namespace llmtrain {

// Problems of a valid plan that its user should know about: it does not fit, too few micro-batches, tensor ranks across
// nodes, a type that the device does not support. One sentence per problem, with a remedy.
std::vector<std::string> plan_warnings(const PlanSources& sources, const std::vector<PlannedRank>& ranks);

}  // namespace llmtrain
