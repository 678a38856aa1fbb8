// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace llmtrain {

// Characters of one general category ("Lu", "Nd", …).
struct CharacterRange {
  std::uint32_t first;
  std::uint32_t last;
  std::string_view category;
};

// What Unicode 15 and 16 added: PCRE2 10.42 knows Unicode 14, Oniguruma in the `tokenizers` package 0.23 knows 16.
std::span<const CharacterRange> recent_characters();

}  // namespace llmtrain
