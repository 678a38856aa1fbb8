// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/recipe/recipe_io.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain::test {

// A GPT of six layers, with four micro-batches on one V100.
Recipe six_layers(const std::vector<Override>& overrides = {});

// The profile that it names.
ClusterProfile profile_of(const Recipe& recipe);

Plan plan_of(const Recipe& recipe);

}  // namespace llmtrain::test
