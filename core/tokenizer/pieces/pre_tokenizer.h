// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/pieces/json_fields.h"
#include "core/tokenizer/pieces/regex.h"

namespace llmtrain {

// Cuts text into words, within which merges happen: "pre_tokenizer" of tokenizer.json. Its steps run one after another,
// each on the pieces of the one before.
class PreTokenizer {
 public:
  // Reads a ByteLevel, or a Sequence of Split and Digits that ends with one. Throws Error(bad_data) that names what is
  // not supported.
  explicit PreTokenizer(const JsonFields& section);

  struct Step {
    std::optional<Regex> regex;      // each match is a piece
    bool keeps_rest = true;          // so is what lies between two matches
    bool begins_with_space = false;  // a space is put before a piece that has none
  };
  const std::vector<Step>& steps() const { return steps_; }

 private:
  void add(const JsonFields& section);
  void add_split(const JsonFields& section);
  void add_byte_level(const JsonFields& section);

  std::vector<Step> steps_;
};

// Runs a pre-tokenizer: one object per thread. The pre-tokenizer outlives it.
class WordSplitter {
 public:
  using Word = std::function<void(std::string_view)>;

  explicit WordSplitter(const PreTokenizer& pre_tokenizer);
  // Calls `word` with each word of `text`, which is valid UTF-8 and not empty.
  void split(std::string_view text, const Word& word) { split(text, 0, word); }

 private:
  void split(std::string_view text, std::size_t step, const Word& word);
  void split_by_matches(std::string_view text, std::size_t step, const Word& word);

  const std::vector<PreTokenizer::Step>& steps_;
  std::vector<std::optional<RegexMatcher>> matchers_;  // by step
};

}  // namespace llmtrain
