// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/tokenizer/pieces/json_fields.h"
#include "core/tokenizer/pieces/token_id.h"

namespace llmtrain {

// The tokens of a model, as they are written in its file, and their ids.
class Vocabulary {
  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };

 public:
  // Reads an object of tokens and ids, or Unigram's list of tokens with scores, whose places are the ids; the last of
  // equal ones counts. Throws Error(bad_data) for an id far beyond the tokens' number, which is damage and would take
  // its memory.
  explicit Vocabulary(const JsonFields& section);

  std::optional<TokenId> find(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? std::nullopt : std::optional<TokenId>(found->second);
  }
  // The token that `section` names at `key`; throws Error(bad_data) at that place where there is none.
  TokenId named(const JsonFields& section, const char* key) const;

  // Pairs of a token and its id.
  const auto& tokens() const { return ids_; }
  // The same of those among equal ones that do not count.
  const auto& repeated() const { return repeated_; }

  // Ids are dense but for so many.
  static constexpr std::size_t most_gaps = 1 << 20;

 private:
  std::unordered_map<std::string, TokenId, TextHash, std::equal_to<>> ids_;
  std::vector<std::pair<std::string, TokenId>> repeated_;
};

// The token of a byte in models that fall back to bytes: <0x0A>.
std::string name_of_byte(unsigned char byte);

}  // namespace llmtrain
