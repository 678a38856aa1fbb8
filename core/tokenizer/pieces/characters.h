// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace llmtrain {

struct Character {
  char32_t code;
  std::size_t bytes;
};

// The first character of valid UTF-8 that is not empty.
inline Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) return {(lead & 0xF) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(lead & 7) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F), 4};
}

// The last character of valid UTF-8 that is not empty.
Character last_character(std::string_view text);

void append_character(char32_t code, std::string& text);

// Calls `character` with each Character of valid UTF-8.
template <class Function>
void for_each_character(std::string_view text, const Function& character) {
  for (std::size_t place = 0; place < text.size();) {
    const Character next = first_character(text.substr(place));
    character(next);
    place += next.bytes;
  }
}

// What the `tokenizers` package takes for such characters: it asks several tables of Unicode, of different versions.
bool is_white_space(char32_t code);           // White_Space, the same in all
bool is_number(char32_t code);                // N, of Unicode 17
bool is_word_character(char32_t code);        // \w of UTS #18, of Unicode 16
bool is_punctuation(char32_t code);           // ASCII's, and P of Unicode 8
bool is_nonspacing_mark(char32_t code);       // Mn of Unicode 8
bool is_combining_mark(char32_t code);        // M of Unicode 9
bool is_other(char32_t code);                 // C of Unicode 8 but Cn: control and format characters, and private ones
char32_t first_of_lower_case(char32_t code);  // the simple lower case, of Unicode 17

}  // namespace llmtrain
