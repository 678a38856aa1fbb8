// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain {

// Text to token ids and back. The byte tokenizer: one id a byte, 0 to 255, no end-of-text.
std::vector<std::int64_t> encode(const TokenizerRecipe& tokenizer, std::string_view text);
std::string decode(const TokenizerRecipe& tokenizer, std::span<const std::int64_t> tokens);

}  // namespace llmtrain
