// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "parallel/plan/cost/cluster_profile.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain {

// Plans the recipe again without FP8. Returns a warning if that is no slower and fits as well: FP8 then risks accuracy
// and saves only memory that is available anyway. Returns none if the recipe does not use FP8.
std::optional<std::string> fp8_does_not_pay(const Plan& plan, const ClusterProfile& profile);

}  // namespace llmtrain
