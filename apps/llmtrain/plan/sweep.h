// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "apps/llmtrain/plan/plan.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain::app {

// Plans a file's recipe with every combination of values of the axes, each "key=value,value" (commas within brackets,
// braces and quotes belong to a value), and prints the table or JSON and writes the page. A combination that no recipe
// may have is a line with the reason. Throws Error(bad_recipe) for a malformed axis, for too many combinations, and
// where all of them are refused.
int show_sweep(const std::string& file, const std::vector<Override>& overrides, const std::vector<std::string>& axes,
               const PlanOutputs& outputs);

}  // namespace llmtrain::app
