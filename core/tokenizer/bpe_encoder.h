// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "core/tokenizer/huggingface_tokenizer.h"
#include "core/tokenizer/word_cache.h"

namespace llmtrain {

// Encodes text by a HuggingFaceTokenizer, which outlives it.
class BpeEncoder final : public TextEncoder {
 public:
  explicit BpeEncoder(const HuggingFaceTokenizer& tokenizer);
  void encode(std::string_view text, std::vector<TokenId>& ids) override;

 private:
  // From the whole text to its words; each part is valid UTF-8 without added tokens of the step before.
  void encode_valid(std::string_view text);
  void encode_normalized(std::string_view text);
  void encode_word(std::string_view word);
  // The word's bytes as tokens, before merges.
  void split_into_bytes(std::string_view word);

  const HuggingFaceTokenizer& tokenizer_;
  WordSplitter splitter_;
  WordCache cache_;
  BpeMerges::Workspace workspace_;
  std::vector<TokenId> word_;
  std::vector<TokenId>* ids_ = nullptr;
};

}  // namespace llmtrain
