// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/models/word_level_model.h"

namespace llmtrain {

class WordLevelEncoder final : public WordEncoder {
 public:
  explicit WordLevelEncoder(const WordLevelModel& model) : model_(model) {}
  void encode(std::string_view word, std::vector<TokenId>& ids) override {
    ids.assign(1, model_.vocabulary_.find(word).value_or(model_.unknown_));
  }

 private:
  const WordLevelModel& model_;
};

WordLevelModel::WordLevelModel(const JsonFields& section, const Vocabulary& vocabulary)
    : vocabulary_(vocabulary), unknown_(vocabulary.named(section, "unk_token")) {}

std::unique_ptr<WordEncoder> WordLevelModel::make_encoder() const { return std::make_unique<WordLevelEncoder>(*this); }

}  // namespace llmtrain
