// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "parallel/plan/cost/cluster_profile.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain {

// Plans the recipe once more without FP8. A warning where that is no slower and fits as well: then FP8 risks accuracy
// for nothing but memory that was there. None where the recipe has no FP8.
std::optional<std::string> fp8_does_not_pay(const Plan& plan, const ClusterProfile& profile);

}  // namespace llmtrain
