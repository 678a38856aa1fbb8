// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/recipe/recipe.h"

namespace llmtrain::app {

// Throws Error(bad_recipe) with a line for each key that this version cannot execute; `name` stands for the recipe.
void require_executable(const Recipe& recipe, const std::string& name);

}  // namespace llmtrain::app
