// SPDX-License-Identifier: Apache-2.0
// The methods of texts that ask what characters they have.
#include <algorithm>

#include "core/jinja/functions/text_methods.h"
#include "core/jinja/values/character_category.h"
#include "core/jinja/values/letter_case.h"
#include "core/jinja/values/text.h"

namespace llmtrain::jinja {
namespace {

bool is_letter(char32_t character) {
  switch (category_of(character)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}

bool is_decimal(char32_t character) { return category_of(character) == UTF8PROC_CATEGORY_ND; }

// Also digits that are set higher, lower, or into circles.
bool is_digit(char32_t character) {
  static constexpr std::pair<char32_t, char32_t> others[] = {
      {0xB2, 0xB3},     {0xB9, 0xB9},     {0x1369, 0x1371}, {0x19DA, 0x19DA}, {0x2070, 0x2070}, {0x2074, 0x2079},
      {0x2080, 0x2089}, {0x2460, 0x2468}, {0x2474, 0x247C}, {0x2488, 0x2490}, {0x24EA, 0x24EA}, {0x24F5, 0x24FD},
      {0x24FF, 0x24FF}, {0x2776, 0x277E}, {0x2780, 0x2788}, {0x278A, 0x2792}};
  return is_decimal(character) || std::ranges::any_of(others, [&](const auto& range) {
           return character >= range.first && character <= range.second;
         });
}

bool is_numeric(char32_t character) {
  const auto category = category_of(character);
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

Value all_are(const std::string& self, const Arguments& arguments, bool (*is_one)(char32_t), bool when_empty = false) {
  const BoundArguments bound("the method", arguments, {});
  const std::u32string characters = decoded(self);
  return boolean(characters.empty() ? when_empty : std::ranges::all_of(characters, is_one));
}

}  // namespace

bool is_lower_text(std::string_view bytes) {
  const std::u32string characters = decoded(bytes);
  return std::ranges::any_of(characters, is_lower_letter) && std::ranges::none_of(characters, is_upper_letter) &&
         std::ranges::none_of(characters, is_title_letter);
}

bool is_upper_text(std::string_view bytes) {
  const std::u32string characters = decoded(bytes);
  return std::ranges::any_of(characters, is_upper_letter) && std::ranges::none_of(characters, is_lower_letter) &&
         std::ranges::none_of(characters, is_title_letter);
}

Value isalnum(const std::string& self, const Arguments& arguments) {
  return all_are(self, arguments, [](char32_t each) { return is_letter(each) || is_numeric(each); });
}

Value isalpha(const std::string& self, const Arguments& arguments) { return all_are(self, arguments, is_letter); }

Value isascii(const std::string& self, const Arguments& arguments) {
  return all_are(
      self, arguments, [](char32_t each) { return each < 0x80; }, true);
}

Value isdecimal(const std::string& self, const Arguments& arguments) { return all_are(self, arguments, is_decimal); }
Value isdigit(const std::string& self, const Arguments& arguments) { return all_are(self, arguments, is_digit); }
Value isnumeric(const std::string& self, const Arguments& arguments) { return all_are(self, arguments, is_numeric); }
Value isspace(const std::string& self, const Arguments& arguments) { return all_are(self, arguments, is_space); }

Value isprintable(const std::string& self, const Arguments& arguments) {
  return all_are(self, arguments, is_printable, true);
}

Value islower(const std::string& self, const Arguments& arguments) {
  const BoundArguments bound("islower", arguments, {});
  return boolean(is_lower_text(self));
}

Value isupper(const std::string& self, const Arguments& arguments) {
  const BoundArguments bound("isupper", arguments, {});
  return boolean(is_upper_text(self));
}

Value istitle(const std::string& self, const Arguments& arguments) {
  const BoundArguments bound("istitle", arguments, {});
  bool is_within = false, has_letter = false;
  for (const char32_t character : decoded(self)) {
    const bool begins = is_upper_letter(character) || is_title_letter(character);
    if ((begins && is_within) || (is_lower_letter(character) && !is_within)) return boolean(false);
    is_within = begins || is_lower_letter(character);
    has_letter |= is_within;
  }
  return boolean(has_letter);
}

}  // namespace llmtrain::jinja
