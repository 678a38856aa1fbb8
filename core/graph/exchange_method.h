// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "core/recipe/recipe.h"

namespace llmtrain {

// How expert ranks exchange the rows of a micro-batch.
struct ExchangeMethod {
  std::int64_t parts = 1;                  // into which they are cut, so that some travel while others are computed
  AllToAll all_to_all = AllToAll::linear;  // never automatic

  bool operator==(const ExchangeMethod&) const = default;
};

// The parts among which an automatic parallel.expert_overlap chooses (Hwang et al., arXiv 2206.03382, section 3.3).
inline constexpr std::array<std::int64_t, 4> automatic_parts = {1, 2, 4, 8};

}  // namespace llmtrain
