// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/json_text.h"

namespace llmtrain {

// A recipe's JSON as it was written, after applying `--set`.
struct Document {
  Json root;
  std::vector<std::string> overridden;  // JSON pointers of the values set by `--set`

  // Whether the recipe gives a value at `pointer`.
  bool holds(std::string_view pointer) const;
  // Position of the value, for sorting: the index at each level. A missing value sorts after its siblings.
  std::vector<std::size_t> place_of(std::string_view pointer) const;
  // Whether the value at `pointer` came from `--set`.
  bool is_override(std::string_view pointer) const;
};

// Whether `pointer` is `ancestor` or within it.
bool lies_in(std::string_view pointer, std::string_view ancestor);

}  // namespace llmtrain
