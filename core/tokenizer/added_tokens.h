// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// A token that is found in text as it is written, before words are cut: <|endoftext|> and the like.
struct AddedToken {
  TokenId id = 0;
  std::string text;
  bool takes_space_before = false;
  bool takes_space_after = false;
  bool is_single_word = false;  // found only where no letter, digit or the like stands beside it
  bool is_normalized = false;   // found in normalized text
  bool is_special = false;      // a mark, such as that of a document's end
};

// Finds added tokens from left to right, at each place the longest.
class AddedTokenFinder {
 public:
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);

  // Calls `text` with each part between added tokens, unless it is empty, and `token` with each that is found.
  void cut(std::string_view all, const std::function<void(std::string_view)>& text,
           const std::function<void(TokenId)>& token) const;

 private:
  struct Group {
    std::string prefix;              // of all of them
    std::vector<AddedToken> tokens;  // the longest first
  };

  const AddedToken* token_at(std::string_view text) const;

  std::array<Group, 256> groups_;  // by first byte
  std::vector<unsigned char> first_bytes_;
};

}  // namespace llmtrain
