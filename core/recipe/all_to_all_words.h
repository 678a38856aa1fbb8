// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "core/recipe/recipe.h"

namespace llmtrain {

// In the order of the enum: as recipes say them, and what runs record of their exchanges.
inline constexpr std::array<std::string_view, 3> all_to_all_words = {"linear", "hierarchical", "auto"};

constexpr std::string_view word_of(AllToAll all_to_all) {
  return all_to_all_words[static_cast<std::size_t>(all_to_all)];
}

}  // namespace llmtrain
