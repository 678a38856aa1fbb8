// SPDX-License-Identifier: Apache-2.0
#include "core/data/examples/target_texts.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace llmtrain {

std::string TargetTexts::text_of(std::span<const std::int64_t> tokens) const {
  using Piece = ExampleTemplate::Piece;
  const auto is_mark = [&](std::int64_t id) {
    return id == decoder_start_ || std::ranges::any_of(template_.single, [&](const Piece& piece) {
             return piece.kind == Piece::Kind::mark && piece.id == id;
           });
  };
  std::vector<std::int64_t> words;
  std::ranges::remove_copy_if(tokens, std::back_inserter(words), is_mark);
  return tokenizer_.decode(words);
}

}  // namespace llmtrain
