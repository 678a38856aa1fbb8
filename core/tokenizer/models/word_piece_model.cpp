// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/models/word_piece_model.h"

#include <string>

#include "core/tokenizer/pieces/characters.h"

namespace llmtrain {

class WordPieceEncoder final : public WordEncoder {
 public:
  explicit WordPieceEncoder(const WordPieceModel& model) : model_(model) {}

  void encode(std::string_view word, std::vector<TokenId>& ids) override {
    ids.clear();
    bool is_known = !is_too_long(word);
    for (std::string_view rest = word; is_known && !rest.empty();) {
      std::size_t longest = 0;
      TokenId token = 0;
      (ids.empty() ? model_.beginnings_ : model_.continuations_)
          .find_prefixes(rest, [&](std::size_t bytes, TokenId id) {
            longest = bytes;
            token = id;
          });
      is_known = longest > 0;
      ids.push_back(token);
      rest.remove_prefix(longest);
    }
    if (!is_known) ids.assign(1, model_.unknown_);
  }

 private:
  bool is_too_long(std::string_view word) const {
    // A character has a byte at least.
    if (word.size() <= model_.most_characters_) return false;
    std::size_t characters = 0;
    for_each_character(word, [&](const Character&) { ++characters; });
    return characters > model_.most_characters_;
  }

  const WordPieceModel& model_;
};

WordPieceModel::WordPieceModel(const JsonFields& section, const Vocabulary& vocabulary)
    : unknown_(vocabulary.named(section, "unk_token")),
      most_characters_(static_cast<std::size_t>(section.whole_number("max_input_chars_per_word"))) {
  const std::string prefix = section.text("continuing_subword_prefix");
  TokenTrie::Tokens beginnings, continuations;
  for (const auto& [token, id] : vocabulary.tokens()) {
    beginnings.emplace_back(token, id);
    if (token.starts_with(prefix)) continuations.emplace_back(std::string_view(token).substr(prefix.size()), id);
  }
  beginnings_ = TokenTrie(std::move(beginnings));
  continuations_ = TokenTrie(std::move(continuations));
}

std::unique_ptr<WordEncoder> WordPieceModel::make_encoder() const { return std::make_unique<WordPieceEncoder>(*this); }

}  // namespace llmtrain
