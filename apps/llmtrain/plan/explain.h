// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "apps/llmtrain/plan/plan.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain::app {

// Plans a file's recipe and that of a source, a run's directory or "published:NAME" (published_source.h), and prints as
// text or JSON which keys make them differ, and what the recipe's run should measure by what the source did. With
// "published:" prints the names instead. Throws Error, also where the run has measured nothing.
int show_explanation(const std::string& file, const std::vector<Override>& overrides, const std::string& source,
                     const PlanOutputs& outputs);

}  // namespace llmtrain::app
