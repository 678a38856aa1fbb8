// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "apps/llmtrain/plan/plan.h"
#include "core/recipe/recipe.h"

namespace llmtrain::app {

// Prints what policies of memory take of a step and of the way to the host within a limit: a share of the device's
// memory, up to 1, or bytes, as memory.limit says it, which is left aside. Throws Error(bad_recipe) where they do not
// apply to the recipe.
int show_policies(const std::string& file, Recipe recipe, double limit, const PlanOutputs& outputs);

}  // namespace llmtrain::app
