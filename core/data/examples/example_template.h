// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/recipe/data_recipe.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// How a tokenizer puts one text, or two, into a sequence.
struct ExampleTemplate {
  struct Piece {
    enum class Kind { mark, text, pair };
    Kind kind = Kind::mark;
    TokenId id = 0;         // of a mark
    std::int64_t type = 0;  // of its rows: token_types
  };
  std::vector<Piece> single, pair;

  // Marks of either form.
  static std::int64_t marks(const std::vector<Piece>& pieces);
  // Appends a text, or two, between the marks of either form, and the type of each row. Returns at which of the rows
  // that it appends the second text begins; 0 without one.
  static std::size_t append(const std::vector<Piece>& pieces, std::span<const TokenId> text,
                            std::span<const TokenId> pair, std::vector<TokenId>& ids, std::vector<std::uint8_t>& types);
};

// What the "post_processor" of a tokenizer.json says (TemplateProcessing, BertProcessing or RobertaProcessing). Where
// it says nothing, and of other tokenizers, the marks of documents: behind the first text of two stands what ends it,
// and the second has type 1. Throws Error(bad_data) where the file is damaged.
ExampleTemplate example_template(const TokenizerRecipe& recipe, const Tokenizer& opened);

}  // namespace llmtrain
