// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/pieces/characters.h"

#include <utf8proc.h>

#include <algorithm>

#include "core/tokenizer/pieces/older_characters.h"
#include "core/tokenizer/pieces/recent_characters.h"

namespace llmtrain {
namespace {

// The general category, "Lu", of Unicode 16: utf8proc 2.8 knows version 15.
std::string_view category_of(char32_t code) {
  const auto recent = recent_characters();
  const auto range =
      std::ranges::lower_bound(recent, code, {}, [](const CharacterRange& each) { return char32_t{each.last}; });
  if (range != recent.end() && range->first <= code) return range->category;
  return utf8proc_category_string(static_cast<utf8proc_int32_t>(code));
}

bool is_between(char32_t code, char32_t first, char32_t last) { return code >= first && code <= last; }

bool is_ascii_word(char32_t code) {
  return is_between(code, 'a', 'z') || is_between(code, 'A', 'Z') || is_between(code, '0', '9') || code == '_';
}

bool is_ascii_punctuation(char32_t code) {
  return is_between(code, 0x21, 0x2F) || is_between(code, 0x3A, 0x40) || is_between(code, 0x5B, 0x60) ||
         is_between(code, 0x7B, 0x7E);
}

// Symbols that Unicode calls alphabetic: letters in circles and squares.
bool is_alphabetic_symbol(char32_t code) {
  return is_between(code, 0x24B6, 0x24E9) || is_between(code, 0x1F130, 0x1F149) || is_between(code, 0x1F150, 0x1F169) ||
         is_between(code, 0x1F170, 0x1F189);
}

}  // namespace

Character last_character(std::string_view text) {
  std::size_t bytes = 1;
  while (bytes < text.size() && (static_cast<unsigned char>(text[text.size() - bytes]) & 0xC0) == 0x80) ++bytes;
  return first_character(text.substr(text.size() - bytes));
}

void append_character(char32_t code, std::string& text) {
  const auto add = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto follow = [&](int shift) { add(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6);
    follow(0);
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    follow(6);
    follow(0);
  } else {
    add(0xF0 | code >> 18);
    follow(12);
    follow(6);
    follow(0);
  }
}

bool is_white_space(char32_t code) {
  if (code < 0x80) return code == ' ' || is_between(code, 9, 0xD);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || is_between(code, 0x2000, 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_number(char32_t code) {
  if (code < 0x80) return is_between(code, '0', '9');
  // Unicode 17's.
  if (is_between(code, 0x11DE0, 0x11DE9) || is_between(code, 0x16FF4, 0x16FF6)) return true;
  return category_of(code)[0] == 'N';
}

bool is_word_character(char32_t code) {
  if (code < 0x80) return is_ascii_word(code);
  const std::string_view category = category_of(code);
  return category[0] == 'L' || category[0] == 'M' || category == "Nd" || category == "Nl" || category == "Pc" ||
         code == 0x200C || code == 0x200D || is_alphabetic_symbol(code);
}

bool is_punctuation(char32_t code) {
  if (code < 0x80) return is_ascii_punctuation(code);
  return (category_of(code)[0] == 'P') != punctuation_differs_in_unicode_8(code);
}

bool is_nonspacing_mark(char32_t code) {
  return code >= 0x300 && (category_of(code) == "Mn") != nonspacing_differs_in_unicode_8(code);
}

bool is_combining_mark(char32_t code) {
  return code >= 0x300 && (category_of(code)[0] == 'M') != mark_differs_in_unicode_9(code);
}

bool is_other(char32_t code) {
  if (code < 0x80) return code < 0x20 || code == 0x7F;
  // What Unicode 8 did not know as a format character; and what is assigned by none.
  if (is_between(code, 0x890, 0x891) || code == 0x8E2 || code == 0x110CD || is_between(code, 0x13430, 0x1343F))
    return false;
  const std::string_view category = category_of(code);
  return category[0] == 'C' && category != "Cn";
}

char32_t first_of_lower_case(char32_t code) {
  // What Unicode 16 and 17 added.
  if (is_between(code, 0x10D50, 0x10D65)) return code + 0x20;
  if (is_between(code, 0x16EA0, 0x16EB8)) return code + 0x1B;
  switch (code) {
    case 0xA7CB:
      return 0x264;
    case 0xA7DC:
      return 0x19B;
    case 0x1C89:
    case 0xA7CC:
    case 0xA7CE:
    case 0xA7D2:
    case 0xA7D4:
    case 0xA7DA:
      return code + 1;
    default:
      return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)));
  }
}

}  // namespace llmtrain
