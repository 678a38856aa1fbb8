// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain {

// Text to token ids and back. The byte tokenizer: one id a byte, 0 to 255, no end-of-text. decode() gives back the
// bytes as they were, valid UTF-8 or not; an id that is no byte (a model's vocabulary may be larger) becomes U+FFFD.
// Both throw Error(bad_recipe) for the tokenizers that text cannot be read with yet.
std::vector<std::int64_t> encode(const TokenizerRecipe& tokenizer, std::string_view text);
std::string decode(const TokenizerRecipe& tokenizer, std::span<const std::int64_t> tokens);

// Throws that Error, which names /data/tokenizer and says what works.
void require_byte_tokenizer(const TokenizerRecipe& tokenizer);

}  // namespace llmtrain
