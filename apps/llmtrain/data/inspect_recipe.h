// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/recipe/recipe_io.h"

namespace llmtrain::app {

struct InspectRecipeOptions {
  std::string file;
  std::vector<Override> overrides;
  std::optional<std::int64_t> samples;  // by default 3
  bool is_validation = false;           // of data.validation instead of data.train
  bool json = false;
};

// Whether the file is a recipe: JSON with a section "data" or "model".
bool is_recipe(const std::string& file);

// Prints what a run would read: the counts of each source, and the first samples in the order of training. Reads and
// tokenises all of the data. Throws Error.
void inspect_recipe(const InspectRecipeOptions& options);

}  // namespace llmtrain::app
