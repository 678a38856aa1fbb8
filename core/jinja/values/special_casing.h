// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llmtrain::jinja {

// A letter of which one other case has several characters, from Unicode's SpecialCasing.txt.
struct SpecialCasing {
  char32_t letter;
  const char32_t* upper;
  const char32_t* title;
};

// Null for all other letters.
const SpecialCasing* special_casing_of(char32_t letter);

}  // namespace llmtrain::jinja
