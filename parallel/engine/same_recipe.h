// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/recipe/recipe.h"
#include "parallel/comm/communicator.h"

namespace llmtrain {

// The first rank's text, on every rank. All ranks call it; blocks.
std::string share_text(Communicator& communicator, const std::string& text);

// Throws Error(bad_recipe) that names the keys where this rank's recipe is not the first rank's. All ranks call it, and
// all of them throw when one does; blocks.
void check_same_recipe(Communicator& communicator, const Recipe& recipe);

}  // namespace llmtrain
