// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/json_text.h"

namespace llmtrain {

// A recipe's JSON as it was written, after applying `--set`.
struct Document {
  Json root;
  std::vector<std::string> overridden;  // JSON pointers of the values set by `--set`

  // Whether the recipe gives a value at `pointer`.
  bool holds(std::string_view pointer) const;
  // Position of the value, for sorting: the index at each level. A missing value sorts after its siblings.
  std::vector<std::size_t> place_of(std::string_view pointer) const;
  // Whether the value at `pointer` came from `--set`.
  bool is_override(std::string_view pointer) const;
};

// Whether `pointer` is `ancestor` or within it.
bool lies_in(std::string_view pointer, std::string_view ancestor);

// Collects the problems of a recipe, so that all of them are reported at once.
class Problems {
 public:
  explicit Problems(const Document& document) : document_(document) {}

  // `what` is wrong at `pointer`; `rule` states what is valid; `hint`, if any, is the nearest valid value.
  void add(const std::string& pointer, const std::string& what, const std::string& rule, const std::string& hint = "");
  // A required key, or a section with required keys, is missing. Not reported when an unknown key was probably meant.
  void add_missing(const std::string& pointer, const std::string& rule);
  // An unknown key. `meant` is the pointer of the key that it resembles, or empty.
  void add_unknown(const std::string& pointer, const std::string& meant);

  // Whether there is no problem at, within or around `pointer`; consequences of a wrong value are not reported again.
  bool is_clean(std::string_view pointer) const;
  bool empty() const { return problems_.empty(); }

  // One line per problem, in the order of the document: `<file>: <JSON pointer>: …`; the file is `--set` for an
  // override, and omitted where it is empty.
  std::string report(const std::string& file) const;

 private:
  enum class Kind { wrong, missing };
  struct Problem {
    std::string pointer;
    std::string text;
    Kind kind = Kind::wrong;
  };

  const Document& document_;
  std::vector<Problem> problems_;
  std::vector<std::string> meant_;  // absent keys that unknown ones resemble
};

}  // namespace llmtrain
