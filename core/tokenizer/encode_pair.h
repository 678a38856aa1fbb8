// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// Ids, and of each the type of the text that it belongs to.
struct TypedIds {
  std::vector<TokenId> ids;
  std::vector<std::int32_t> types;
};

// One text or two with the marks that the tokenizer puts around and between them, as models read that tell texts apart:
// "input_ids" and "token_type_ids" of transformers. `encoder` is one of the tokenizer. Throws as TextEncoder::encode().
TypedIds encode_pair(const Tokenizer& tokenizer, TextEncoder& encoder, std::string_view first,
                     std::optional<std::string_view> second);

}  // namespace llmtrain
