// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "apps/llmtrain/plan/plan.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain::app {

// Plans the recipes of two files and prints them side by side as text or JSON, with the effect of each key that
// differs. Throws Error.
int show_comparison(const std::string& first, const std::string& second, const std::vector<Override>& overrides,
                    const PlanOutputs& outputs);

}  // namespace llmtrain::app
