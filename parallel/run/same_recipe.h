// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/recipe.h"
#include "parallel/comm/communicator.h"

namespace llmtrain {

// Throws Error(bad_recipe) that names a rank whose recipe differs from the first rank's, and the first key that
// differs. Collective: all ranks call it and throw the same error; blocks.
void check_same_recipe(Communicator& communicator, const Recipe& recipe);

}  // namespace llmtrain
