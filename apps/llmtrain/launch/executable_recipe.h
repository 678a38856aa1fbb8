// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/recipe/recipe.h"

namespace llmtrain::app {

// Throws Error(bad_recipe) with one line for each key that this version cannot execute; `name` names the recipe in it.
void require_executable(const Recipe& recipe, const std::string& name);

// Throws Error(bad_recipe) where the recipe names no data to train on.
void require_training_data(const Recipe& recipe, const std::string& name);

}  // namespace llmtrain::app
