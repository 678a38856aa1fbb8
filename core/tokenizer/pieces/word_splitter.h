// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "core/tokenizer/pieces/pre_tokenizer.h"
#include "core/tokenizer/pieces/regex.h"

namespace llmtrain {

// Runs a pre-tokenizer: one object per thread. The pre-tokenizer outlives it.
class WordSplitter {
 public:
  using Word = std::function<void(std::string_view)>;

  explicit WordSplitter(const PreTokenizer& pre_tokenizer);

  // Calls `word` with each word of `text`, which is valid UTF-8 and not empty. `is_first`: nothing is before it in the
  // whole text.
  void split(std::string_view text, bool is_first, const Word& word) { split(text, is_first, 0, word); }

 private:
  void split(std::string_view text, bool is_first, std::size_t step, const Word& word);
  void cut(std::string_view text, bool is_first, std::size_t step, const Word& word);
  // Hands a piece of `step` to the next one.
  void pass_on(std::string_view piece, bool is_first, std::size_t step, const Word& word);

  const std::vector<PreTokenizer::Step>& steps_;
  std::vector<std::optional<RegexMatcher>> matchers_;  // by step
};

}  // namespace llmtrain
