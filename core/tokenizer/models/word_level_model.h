// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/tokenizer/models/vocabulary.h"
#include "core/tokenizer/models/word_model.h"

namespace llmtrain {

// "WordLevel": a word is one token, or unknown. The vocabulary outlives the model.
class WordLevelModel final : public WordModel {
 public:
  WordLevelModel(const JsonFields& section, const Vocabulary& vocabulary);
  std::unique_ptr<WordEncoder> make_encoder() const override;

 private:
  friend class WordLevelEncoder;

  const Vocabulary& vocabulary_;
  TokenId unknown_;
};

}  // namespace llmtrain
