// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/recipe/recipe.h"

namespace llmtrain::app {

struct SearchOutputs {
  bool json = false;
  bool derives_data = false;  // whether the recipe's data ranks are not those of its file (derived_data.h)
  std::string best;           // the file of the best recipe
};

// The keys of a recipe that a search chooses, in the form of a recipe.
nlohmann::ordered_json layout_keys(const Recipe& recipe);

// Searches the layouts of a file's recipe, prints the front of time and memory and writes the best recipe (best_of()).
// Throws Error(bad_recipe) when no layout fits.
int show_search(const std::string& file, const Recipe& recipe, const SearchOutputs& outputs);

}  // namespace llmtrain::app
