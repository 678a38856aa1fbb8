// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/tokenizer/pieces/token_id.h"

namespace llmtrain {

// A part of what a model reads: one of two texts, or marks. `type` says to which text a token belongs, for models that
// have embeddings of types, such as BERT.
struct TemplatePiece {
  enum class Kind { first_text, second_text, marks };
  Kind kind = Kind::first_text;
  std::vector<TokenId> marks;
  std::int32_t type = 0;
};

// What a tokenizer makes of one text, and of two.
struct TextTemplates {
  std::vector<TemplatePiece> single = {{TemplatePiece::Kind::first_text, {}, 0}};
  std::vector<TemplatePiece> pair = {{TemplatePiece::Kind::first_text, {}, 0},
                                     {TemplatePiece::Kind::second_text, {}, 1}};
};

}  // namespace llmtrain
