// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/recipe.h"
#include "parallel/comm/communicator.h"

namespace llmtrain {

// Throws Error(bad_recipe) that names a rank whose recipe is not the first rank's, and the first key where it is not.
// All ranks call it, and all of them throw the same; blocks.
void check_same_recipe(Communicator& communicator, const Recipe& recipe);

}  // namespace llmtrain
