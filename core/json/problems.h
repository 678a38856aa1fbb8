// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/json/document.h"

namespace llmtrain {

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
  bool is_reported(const Problem& problem) const;

  const Document& document_;
  std::vector<Problem> problems_;
  std::vector<std::string> meant_;  // absent keys that unknown ones resemble
};

}  // namespace llmtrain
