// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/json/document.h"

namespace llmtrain {

// Collects what is wrong with a recipe, so that all of it is told at once.
class Problems {
 public:
  explicit Problems(const Document& document) : document_(document) {}

  // `what` is wrong at `pointer`; `rule` says what would be right; `hint`, if any, is the nearest right thing.
  void add(const std::string& pointer, const std::string& what, const std::string& rule, const std::string& hint = "");
  // A required key, or a section with required keys, is not there. Not told when an unknown key was probably meant.
  void add_missing(const std::string& pointer, const std::string& rule);
  // A key that no recipe has. `meant` is the pointer of the key that it resembles, or empty.
  void add_unknown(const std::string& pointer, const std::string& meant);

  // Whether nothing is wrong at, in or around `pointer`: what follows from a wrong value is not told again.
  bool is_clean(std::string_view pointer) const;
  bool empty() const { return problems_.empty(); }

  // One line each, in the order of the document: `<file>: <JSON pointer>: …`; the file is `--set` for an override, and
  // left out where it is empty.
  std::string report(const std::string& file) const;

 private:
  enum class Kind { wrong, missing };
  struct Problem {
    std::string pointer;
    std::string text;
    Kind kind = Kind::wrong;
  };
  bool is_told(const Problem& problem) const;

  const Document& document_;
  std::vector<Problem> problems_;
  std::vector<std::string> meant_;  // absent keys that unknown ones resemble
};

}  // namespace llmtrain
