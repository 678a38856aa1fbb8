// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/tokenizer/models/token_trie.h"
#include "core/tokenizer/models/vocabulary.h"
#include "core/tokenizer/models/word_model.h"

namespace llmtrain {

// A unigram language model (Kudo 2018, arXiv:1804.10959, section 3.2): the tokens of a word are those with the largest
// sum of scores, found by Viterbi's algorithm. A character without a token of its own costs ten more than the worst
// token; such characters in a row are one unknown token, or their bytes' tokens where the model falls back to bytes.
// The vocabulary outlives the model.
class UnigramModel final : public WordModel {
 public:
  // Throws Error(bad_data).
  UnigramModel(const JsonFields& section, const Vocabulary& vocabulary);
  std::unique_ptr<WordEncoder> make_encoder() const override;
  bool reads_bytes() const override { return bytes_.has_value(); }

 private:
  friend class UnigramEncoder;

  const Vocabulary& vocabulary_;
  std::string file_;
  TokenTrie trie_;
  std::vector<double> scores_;  // by id
  std::optional<TokenId> unknown_;
  double unknown_score_ = 0;
  std::optional<std::array<TokenId, 256>> bytes_;  // -1 for one without a token
};

}  // namespace llmtrain
