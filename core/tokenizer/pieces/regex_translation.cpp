// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/pieces/regex_translation.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <stdexcept>

#include "core/tokenizer/pieces/recent_characters.h"

namespace llmtrain {
namespace {

// Unicode's White_Space. PCRE2's \s has U+180E in addition.
constexpr std::string_view white_space =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

constexpr std::string_view categories[] = {"L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc",
                                           "Me", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Ps",
                                           "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk", "So"};

[[noreturn]] void refuse(std::string_view construct) {
  throw std::invalid_argument("\"" + std::string(construct) + "\" is not supported");
}

// For use within brackets.
std::string members_of(std::string_view category) {
  if (std::ranges::find(categories, category) == std::end(categories)) refuse(fmt::format("\\p{{{}}}", category));
  std::string members = fmt::format("\\p{{{}}}", category);
  for (const CharacterRange& range : recent_characters())
    if (range.category.starts_with(category))
      members += fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", range.first, range.last);
  return members;
}

class Translation {
 public:
  explicit Translation(std::string_view pattern) : rest_(pattern) {}

  std::string run() {
    while (!rest_.empty()) {
      const char next = rest_.front();
      if (next == '\\') {
        escape();
      } else if (in_class_) {
        class_character(next);
      } else {
        plain_character(next);
      }
    }
    return std::move(result_);
  }

 private:
  // Copies `count` characters.
  void copy(std::size_t count) {
    result_ += rest_.substr(0, count);
    rest_.remove_prefix(std::min(count, rest_.size()));
  }

  void plain_character(char next) {
    // {,n} is a repetition in Oniguruma and text in PCRE2; {n}+ repeats in the one and is possessive in the other; (?m)
    // is about dots in the one and about lines in the other.
    for (const std::string_view differing : {"{,", "}+", "(?m"})
      if (rest_.starts_with(differing)) refuse(differing);
    in_class_ = next == '[';
    // A bracket that is the first member is an empty class in the one, a member in the other.
    if (rest_.starts_with("[]") || rest_.starts_with("[^]")) refuse("[]");
    copy(rest_.starts_with("[^") ? 2 : 1);
  }

  void class_character(char next) {
    // Sets within sets, and their intersection, are Oniguruma's.
    if (next == '[' || rest_.starts_with("&&")) refuse(rest_.substr(0, next == '[' ? 1 : 2));
    in_class_ = next != ']';
    copy(1);
  }

  // `members` in the class that is open, or as a class.
  void add(std::string_view members, bool negated) {
    if (in_class_) {
      result_ += members;
    } else {
      result_ += negated ? "[^" : "[";
      result_.append(members).append("]");
    }
  }

  void escape() {
    if (rest_.size() < 2) refuse("\\");
    const char name = rest_[1];
    if (name == 'p' || name == 'P') return property(name == 'P');
    if (name == 's') {
      add(white_space, false);
    } else if (name == 'S') {
      // Within a class: all that PCRE2 takes for no space, and the one character more.
      add(in_class_ ? R"(\S\x{180e})" : white_space, true);
    } else if (name == 'd') {
      add(members_of("Nd"), false);
    } else if (std::isalnum(static_cast<unsigned char>(name)) == 0 ||
               std::string_view("nrtx").find(name) != std::string_view::npos) {
      return copy(2);  // the same in both, as are the plain characters after \x
    } else {
      refuse(rest_.substr(0, 2));
    }
    rest_.remove_prefix(2);
  }

  // \p{L} or \pL.
  void property(bool negated) {
    const std::size_t close = rest_.find('}');
    const bool braced = rest_.size() > 2 && rest_[2] == '{';
    if (rest_.size() < 3 || (braced && close == std::string_view::npos)) refuse(rest_);
    const std::string_view category = braced ? rest_.substr(3, close - 3) : rest_.substr(2, 1);
    // Members cannot be taken away from a class.
    if (negated && in_class_) refuse(fmt::format("[\\P{{{}}}]", category));
    add(members_of(category), negated);
    rest_.remove_prefix(braced ? close + 1 : 3);
  }

  std::string_view rest_;
  std::string result_;
  bool in_class_ = false;
};

}  // namespace

std::string translate_regex(std::string_view pattern) { return Translation(pattern).run(); }

}  // namespace llmtrain
