// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>

#include "core/recipe/recipe.h"

namespace llmtrain {

// Whether a recipe states a key, by its JSON pointer.
using StatesKey = std::function<bool(std::string_view pointer)>;

// Gives the keys that memory.policy is made of, and the recipe does not state, their values under it; what
// set_default_order() gives is given here, too. Nothing with "none". `recipe` has been read.
void set_policy_defaults(Recipe& recipe, const StatesKey& states);

}  // namespace llmtrain
