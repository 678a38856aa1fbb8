// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/recipe/data_recipe.h"

namespace llmtrain {

// Entries of data.validation that have a loss together.
struct ValidationSources {
  std::string name{};                 // empty: the only one, of all entries
  std::vector<DataSource> sources{};  // that are blended
  std::size_t first_source = 0;       // where data.validation has the first of them
};

// A set for each entry with a name, or one of all entries; none where there are none.
std::vector<ValidationSources> validation_sets(const std::vector<DataSource>& validation);

}  // namespace llmtrain
