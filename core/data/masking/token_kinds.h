// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/recipe/data_recipe.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// What the ids of a tokenizer stand for.
struct TokenKinds {
  // That of "mask_token" in the files beside the tokenizer's, else of the added token [MASK] or <mask>; none: it has
  // no such token.
  std::optional<std::int64_t> mask;
  // By id: it stands for no text, as marks of documents, padding, masks, ids without a token, and added tokens that are
  // "special" do.
  std::vector<bool> is_special;
  // By id: its text is the beginning of a word, or no word: in WordPiece what lacks the prefix of continuations ("##"),
  // else what begins with a space ("Ġ" of bytes, "▁" of SentencePiece) or another blank.
  std::vector<bool> begins_word;
};

// Reads the kinds from the tokenizer that `recipe` names and `opened` is. Throws Error(bad_data) where its files are
// damaged.
TokenKinds token_kinds(const TokenizerRecipe& recipe, const Tokenizer& opened);

}  // namespace llmtrain
