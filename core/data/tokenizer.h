// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain {

// Text to token ids and back. The byte tokenizer maps each byte to one id, 0 to 255, without an end-of-text token.
// decode() returns the original bytes, valid UTF-8 or not; an id that is not a byte (the vocabulary may be larger)
// becomes U+FFFD. Both throw Error(bad_recipe) for tokenizers that do not support text yet.
std::vector<std::int64_t> encode(const TokenizerRecipe& tokenizer, std::string_view text);
std::string decode(const TokenizerRecipe& tokenizer, std::span<const std::int64_t> tokens);

// Throws that Error, which names /data/tokenizer and the alternatives.
void require_byte_tokenizer(const TokenizerRecipe& tokenizer);

}  // namespace llmtrain
