// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/recipe/recipe.h"

namespace llmtrain {

// Copies a tokenizer's file, and what transformers reads beside it, into the folder of an exported model under the
// names that transformers looks for; a tokenizer.json without a tokenizer_config.json gets one. Bytes have none.
//
// For SentencePiece it adds a tokenizer.json with the model's ids, since AutoTokenizer makes another tokenizer of a
// tokenizer.model for each type of model, and says in the tokenizer_config.json that texts have no special tokens,
// unless the folder has a chat template, which is written with them. Where a tokenizer.json cannot say what the model
// does, a warning tells why, and the files are copied as they are.
//
// Throws Error(missing_input), Error(bad_data) or Error(cannot_write).
void copy_tokenizer(const TokenizerRecipe& tokenizer, const std::filesystem::path& folder);

}  // namespace llmtrain
