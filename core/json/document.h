// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/json_text.h"

namespace llmtrain {

// A recipe's JSON as it was written, with what `--set` put into it.
struct Document {
  Json root;
  std::vector<std::string> overridden;  // JSON pointers of what `--set` put there

  // Whether the recipe gives a value here.
  bool holds(std::string_view pointer) const;
  // Where the value stands, for sorting: the index at each level. A value that is missing comes after its neighbours.
  std::vector<std::size_t> place_of(std::string_view pointer) const;
  // Whether the value at `pointer` came from `--set`.
  bool is_override(std::string_view pointer) const;
};

// Whether `pointer` is `ancestor` or lies in it.
bool lies_in(std::string_view pointer, std::string_view ancestor);

}  // namespace llmtrain
