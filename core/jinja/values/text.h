// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmtrain::jinja {

// Texts are UTF-8, and their characters code points, as Python counts them.

std::size_t character_count(std::string_view bytes);
std::u32string decoded(std::string_view bytes);
std::string encoded(std::u32string_view characters);
void append(std::string& bytes, char32_t character);
// The character that begins at `position`, which is moved behind it.
char32_t next_character(std::string_view bytes, std::size_t& position);

// As Python's str.isspace() for one character.
bool is_space(char32_t character);
// As Python's str.isprintable().
bool is_printable(char32_t character);

// Without the characters of `characters`, or white space, at the ends.
std::string_view stripped(std::string_view bytes, const std::optional<std::string>& characters = std::nullopt,
                          bool at_begin = true, bool at_end = true);

// As Python's str.splitlines().
std::vector<std::string_view> lines_of(std::string_view bytes, bool with_ends = false);

// Text that grows up to longest_text (core/jinja/values/value.h) and is refused beyond.
class TextBuilder {
 public:
  void add(std::string_view bytes, std::size_t times = 1);
  std::string take() { return std::move(bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

// `bytes` with every `old` replaced, at most `count` times where that is not negative; an empty one stands between all
// characters.
std::string replaced(std::string_view bytes, std::string_view old, std::string_view by, std::int64_t count = -1);

// The text with &, <, >, ' and " written for HTML.
std::string escaped_html(std::string_view bytes);

}  // namespace llmtrain::jinja
