// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "core/tokenizer/models/token_trie.h"
#include "core/tokenizer/models/vocabulary.h"
#include "core/tokenizer/models/word_model.h"

namespace llmtrain {

// WordPiece as BERT has it (Devlin et al. 2019, arXiv:1810.04805): the longest token that a word begins with, then the
// longest that begins what is left, where tokens have a prefix such as "##". A word that cannot be made so, or has too
// many characters, is one unknown token.
class WordPieceModel final : public WordModel {
 public:
  // Throws Error(bad_data).
  WordPieceModel(const JsonFields& section, const Vocabulary& vocabulary);
  std::unique_ptr<WordEncoder> make_encoder() const override;

 private:
  friend class WordPieceEncoder;

  TokenTrie beginnings_;
  TokenTrie continuations_;  // without their prefix
  TokenId unknown_;
  std::size_t most_characters_;
};

}  // namespace llmtrain
