// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "core/recipe/recipe_io.h"

namespace llmtrain::app {

// The keys that `--price` stands for: "2.5", "2.5 EUR" or "EUR 2.5". Throws Error(bad_recipe) for another text.
std::vector<Override> price_overrides(std::string_view price);

}  // namespace llmtrain::app
