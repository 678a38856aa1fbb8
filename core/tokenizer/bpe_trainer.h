// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/tokenizer/pieces/pre_tokenizer.h"
#include "core/tokenizer/pieces/word_splitter.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

struct BpeTrainingSettings {
  std::int64_t vocab_size = 0;                               // special tokens and the 256 bytes included
  std::int64_t minimum_frequency = 2;                        // of a pair that becomes a token
  std::vector<std::string> special_tokens{"<|endoftext|>"};  // the first ids
};

// A byte-level BPE vocabulary: tokens by id, and the merges in their order, as bytes.
struct BpeVocabulary {
  std::vector<std::string> tokens;
  std::vector<std::pair<TokenId, TokenId>> merges;
  std::size_t special_tokens = 0;  // of `tokens`, at the beginning
};

// Counts the words of texts, as GPT-2's pattern cuts them. Memory grows with the number of different words.
class WordCounts {
  // Finds words without making a string of each.
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

 public:
  WordCounts();

  // Throws Error(bad_data) for text that is not UTF-8.
  void add(std::string_view text);
  const auto& words() const { return words_; }

 private:
  PreTokenizer pre_tokenizer_;
  WordSplitter splitter_;
  std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>> words_;
};

// Byte-pair encoding (Sennrich et al., arXiv 1508.07909, algorithm 1) over bytes: the most frequent pair of
// neighbouring tokens within words becomes a token, until the vocabulary is full or no pair is frequent enough. Among
// equally frequent ones the pair of smaller ids is first, and ids are given as the `tokenizers` package gives them.
// Throws Error(bad_recipe) for a vocabulary that cannot hold the bytes.
BpeVocabulary train_bpe(const WordCounts& counts, const BpeTrainingSettings& settings);

// The tokenizer.json of a vocabulary.
std::string tokenizer_json(const BpeVocabulary& vocabulary);

}  // namespace llmtrain
