// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain {

// What this version cannot execute of a recipe that can be planned, one entry per key: "/parallel/expert: 2 can be
// planned but …". Empty if the recipe can run. No key is ever ignored silently.
std::vector<std::string> not_executable(const Recipe& recipe);

// The keys that it may name, as JSON pointers; a key once for each reason.
std::vector<std::string> keys_not_executable();

// The recipe of who reads a model's weights alone: without what only training asks of a device, so that any has them.
Recipe without_training(Recipe recipe);

// The recipe of one rank that reads the model, whatever ranks train it.
Recipe of_one_reader(Recipe recipe);

}  // namespace llmtrain
