// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain::test {

// Inconsistencies in a plan's report, one sentence each: derived figures, sums, bounds.
std::vector<std::string> disagreements(const Plan& plan, const ClusterProfile& cluster);

}  // namespace llmtrain::test
