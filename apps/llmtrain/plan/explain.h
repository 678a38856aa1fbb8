// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "apps/llmtrain/plan/plan.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain::app {

// Plans a file's recipe and that of a run, and prints as text or JSON which keys make them differ, and what the
// recipe's run should measure by what the other did. Throws Error, also where the run has measured nothing.
int show_explanation(const std::string& file, const std::vector<Override>& overrides, const std::string& run,
                     const PlanOutputs& outputs);

}  // namespace llmtrain::app
