// SPDX-License-Identifier: Apache-2.0
#include "core/json/json_text.h"

#include <algorithm>
#include <array>
#include <utility>

namespace llmtrain {
namespace {

constexpr std::string_view blanks = " \t\r\n";

// Counted in characters, as editors do, not in bytes.
std::string place_of(std::string_view text, std::size_t index) {
  std::size_t line = 1;
  std::size_t column = 1;
  for (const char c : text.substr(0, index)) {
    if (c == '\n') {
      ++line;
      column = 1;
      // Continuation bytes of UTF-8 are no characters of their own.
    } else if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {
      ++column;
    }
  }
  return "line " + std::to_string(line) + ", column " + std::to_string(column) + ": ";
}

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// The parser stops at the first letter that is not valid JSON, so the word may have begun before `index`.
std::string_view word_at(std::string_view text, std::size_t index) {
  const auto is_part = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '+' ||
           c == '.' || c == '_';
  };
  std::size_t begin = index;
  while (begin > 0 && index - begin < 40 && is_part(text[begin - 1])) --begin;
  std::size_t end = index;
  while (end < text.size() && end - begin < 40 && is_part(text[end])) ++end;
  return text.substr(begin, end - begin);
}

std::string in_words(std::string_view word) {
  // Python's.
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 3> spellings = {
      {{"True", "true"}, {"False", "false"}, {"None", "null"}}};
  for (const auto& [wrong, right] : spellings) {
    if (word == wrong) return std::string(word) + " is not JSON; write " + std::string(right);
  }
  for (const std::string_view name : {"NaN", "nan", "Infinity", "-Infinity", "inf", "-inf", "Inf", "-Inf"}) {
    if (word == name) return std::string(word) + " is not a JSON number";
  }
  if (word.empty()) return "";
  return std::string(word) + " is not JSON; strings need double quotes";
}

char last_mark_before(std::string_view text, std::size_t index) {
  const auto mark = text.substr(0, index).find_last_not_of(blanks);
  return mark == std::string_view::npos ? '\0' : text[mark];
}

std::string at_mark(std::string_view text, std::size_t index) {
  const char mark = text[index];
  const char before = last_mark_before(text, index);
  // The two most frequent mistakes, trailing commas and comments, get messages of their own.
  if ((mark == '}' || mark == ']') && before == ',') {
    return std::string("the comma before ") + mark + " must be removed";
  }
  if (mark == '/' || mark == '#') return "JSON has no comments; write them into \"description\"";
  if (mark == '\'') return "strings need double quotes";
  if (mark == '"') return "a comma or colon is missing before this string";
  const auto shown = static_cast<unsigned char>(mark) < 0x20 || static_cast<unsigned char>(mark) >= 0x7F
                         ? std::string("this character")
                         : std::string(1, mark);
  return shown + " is not allowed here";
}

std::string explain(std::string_view text, std::size_t index, std::string_view reason) {
  // The parser's own messages name its tokens and states; only their key words are used.
  if (has(reason, "UTF-8")) return "the text is not UTF-8";
  if (has(reason, "out of range") || has(reason, "out_of_range")) {
    return "the number " + std::string(word_at(text, index)) + " is too large";
  }
  if (index >= text.size()) {
    return last_mark_before(text, text.size()) == '\0' ? "the text is empty" : "the text ends too early";
  }
  if (has(reason, "control character")) return "a string contains a line break or control character";
  if (has(reason, "expected end of input")) return "there is text after the end of the recipe";
  if (has(reason, "invalid string")) return "a string has an invalid escape; a backslash is \\\\";
  if (has(reason, "invalid")) {
    const auto words = in_words(word_at(text, index));
    if (!words.empty()) return words;
  }
  return at_mark(text, index);
}

}  // namespace

std::string describe_syntax_error(std::string_view text, std::size_t position, std::string_view reason) {
  // The parser counts from 1 and includes the byte that it rejected.
  const auto index = std::min(position > 0 ? position - 1 : 0, text.size());
  const bool ended = position > text.size() || has(reason, "unexpected end of input");
  const auto place = ended ? text.size() : index;
  return place_of(text, place) + explain(text, place, reason);
}

}  // namespace llmtrain
