// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "apps/llmtrain/plan/plan.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain::app {

// Says on how many devices all steps of a file's recipe take at most `target` ("30d", "12h", "90m" or "45s"), failures
// included where the cluster's profile knows them: plans the recipe with every number of data ranks that its batch
// allows and that fills whole nodes, and prints a table or JSON. Exits with `done` also if no number is enough. Throws
// Error(bad_recipe) for a malformed target, and where the recipe can be planned with none of them.
int show_target(const std::string& file, const std::vector<Override>& overrides, const std::string& target,
                const PlanOutputs& outputs);

}  // namespace llmtrain::app
