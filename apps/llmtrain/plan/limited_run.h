// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/recipe/recipe.h"
#include "parallel/layout/layout.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/report/plan.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain::app {

// What is no tensor of a planned rank: libraries, connections, and what a checkpoint of a processor's states is copied
// to. Bytes.
double bytes_beside_tensors(const Plan& plan, const PlannedRank& rank, const ClusterProfile& profile);

// What memory.limit of the recipe leaves for tensors in a run with this layout, which was settled within it; none
// without a limit.
std::optional<TensorLimit> tensor_limit_for_run(const std::string& file, const Recipe& recipe,
                                                const std::shared_ptr<const Layout>& layout, const RunLaunch& launch);

}  // namespace llmtrain::app
