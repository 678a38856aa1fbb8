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
};

// What the "post_processor" of a tokenizer.json says (TemplateProcessing, BertProcessing or RobertaProcessing). Where
// it says nothing, and of other tokenizers, the marks of documents: behind the first text of two stands what ends it,
// and the second has type 1. Throws Error(bad_data) where the file is damaged.
ExampleTemplate example_template(const TokenizerRecipe& recipe, const Tokenizer& opened);

}  // namespace llmtrain
