// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/values/letter_case.h"

#include <utf8proc.h>

#include "core/jinja/values/character_category.h"
#include "core/jinja/values/special_casing.h"
#include "core/jinja/values/text.h"

namespace llmtrain::jinja {
namespace {

bool is_cased(char32_t character) {
  const auto category = category_of(character);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}

// Marks and signs that do not end a word.
bool is_passed_over(char32_t character) {
  switch (category_of(character)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return character == '\'' || character == '.' || character == ':' || character == 0xB7 || character == 0x2018 ||
             character == 0x2019 || character == 0x2024 || character == 0x2027;
  }
}

void add_upper(std::u32string& result, char32_t character) {
  if (const auto* special = special_casing_of(character)) {
    result += special->upper;
  } else {
    result += static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(character)));
  }
}

void add_title(std::u32string& result, char32_t character) {
  if (const auto* special = special_casing_of(character)) {
    result += special->title;
  } else {
    result += static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(character)));
  }
}

// A sigma at the end of a word has a form of its own.
bool ends_word(std::u32string_view characters, std::size_t place) {
  std::size_t before = place, after = place + 1;
  while (before > 0 && is_passed_over(characters[before - 1])) --before;
  if (before == 0 || !is_cased(characters[before - 1])) return false;
  while (after < characters.size() && is_passed_over(characters[after])) ++after;
  return after == characters.size() || !is_cased(characters[after]);
}

void add_lower(std::u32string& result, std::u32string_view characters, std::size_t place) {
  const char32_t character = characters[place];
  if (character == 0x0130) {
    result += U"i\u0307";
  } else if (character == 0x03A3) {
    result += ends_word(characters, place) ? U'\u03C2' : U'\u03C3';
  } else {
    result += static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character)));
  }
}

}  // namespace

std::string upper(std::string_view bytes) {
  std::u32string result;
  for (const char32_t character : decoded(bytes)) add_upper(result, character);
  return encoded(result);
}

std::string lower(std::string_view bytes) {
  const std::u32string characters = decoded(bytes);
  std::u32string result;
  for (std::size_t place = 0; place < characters.size(); ++place) add_lower(result, characters, place);
  return encoded(result);
}

std::string title(std::string_view bytes) {
  const std::u32string characters = decoded(bytes);
  std::u32string result;
  bool is_within = false;
  for (std::size_t place = 0; place < characters.size(); ++place) {
    is_within ? add_lower(result, characters, place) : add_title(result, characters[place]);
    is_within = is_cased(characters[place]);
  }
  return encoded(result);
}

std::string capitalize(std::string_view bytes) {
  const std::u32string characters = decoded(bytes);
  std::u32string result;
  for (std::size_t place = 0; place < characters.size(); ++place)
    place == 0 ? add_title(result, characters[place]) : add_lower(result, characters, place);
  return encoded(result);
}

std::string swapcase(std::string_view bytes) {
  const std::u32string characters = decoded(bytes);
  std::u32string result;
  for (std::size_t place = 0; place < characters.size(); ++place) {
    if (is_upper_letter(characters[place])) {
      add_lower(result, characters, place);
    } else if (is_lower_letter(characters[place])) {
      add_upper(result, characters[place]);
    } else {
      result += characters[place];
    }
  }
  return encoded(result);
}

bool is_upper_letter(char32_t character) { return category_of(character) == UTF8PROC_CATEGORY_LU; }
bool is_lower_letter(char32_t character) { return category_of(character) == UTF8PROC_CATEGORY_LL; }
bool is_title_letter(char32_t character) { return category_of(character) == UTF8PROC_CATEGORY_LT; }

}  // namespace llmtrain::jinja
