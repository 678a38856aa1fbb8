// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain::app {

// On how many devices a plan fits that does not and for which suggest() finds nothing, with more data ranks and where
// they alone are not enough with what suggest() finds then, as a sentence with the settings. The number of devices
// doubles from one attempt to the next; none where no number that shares the batch evenly is enough.
std::optional<std::string> devices_that_fit(const Plan& plan, const ClusterProfile& profile);

}  // namespace llmtrain::app
