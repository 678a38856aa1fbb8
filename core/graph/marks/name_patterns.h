// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmtrain {

// Whether the whole text matches the pattern, in which * stands for any text and all else for itself.
bool matches(std::string_view pattern, std::string_view text);

// Patterns of parameters' names, of which each must match one.
class NamePatterns {
 public:
  explicit NamePatterns(std::vector<std::string> patterns)
      : patterns_(std::move(patterns)), is_used_(patterns_.size()) {
    for (const std::string& pattern : patterns_) meanings_.push_back({pattern});
  }
  // For words that stand for patterns each, any of which may match.
  NamePatterns(std::vector<std::string> words, std::vector<std::vector<std::string>> meanings)
      : patterns_(std::move(words)), meanings_(std::move(meanings)), is_used_(patterns_.size()) {}

  // Whether a pattern matches the name; those that do are used from then on.
  bool match(std::string_view name);
  // Throws Error(bad_recipe) where a pattern has matched nothing: `pointer` is the key that lists the patterns, `what`
  // they are for, as in "matrix of a layer".
  void require_used(std::string_view pointer, std::string_view what) const;

 private:
  std::vector<std::string> patterns_;               // as they are written
  std::vector<std::vector<std::string>> meanings_;  // of each
  std::vector<bool> is_used_;
};

}  // namespace llmtrain
