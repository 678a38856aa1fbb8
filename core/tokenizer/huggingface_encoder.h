// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "core/tokenizer/huggingface_tokenizer.h"
#include "core/tokenizer/models/word_cache.h"
#include "core/tokenizer/pieces/word_splitter.h"

namespace llmtrain {

// Encodes text by a HuggingFaceTokenizer, which outlives it.
class HuggingFaceEncoder final : public TextEncoder {
 public:
  explicit HuggingFaceEncoder(const HuggingFaceTokenizer& tokenizer);
  void encode(std::string_view text, std::vector<TokenId>& ids) override;

 private:
  // From the whole text to its words; each part is valid UTF-8 without added tokens of the step before.
  void encode_valid(std::string_view text, bool is_first);
  void encode_part(std::string_view text, bool is_first);
  void encode_normalized(std::string_view text, bool is_first);
  void encode_word(std::string_view word);

  const HuggingFaceTokenizer& tokenizer_;
  std::unique_ptr<WordEncoder> model_;
  WordSplitter splitter_;
  WordCache cache_;
  std::vector<TokenId> word_;
  std::vector<TokenId>* ids_ = nullptr;
};

}  // namespace llmtrain
