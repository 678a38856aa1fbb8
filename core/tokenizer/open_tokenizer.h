// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "core/base/error.h"
#include "core/recipe/recipe.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// Opens what `data.tokenizer` names. Throws Error(missing_input) where its file does not exist, Error(bad_data) that
// names the file where it is damaged or uses what is not supported.
std::shared_ptr<const Tokenizer> open_tokenizer(const TokenizerRecipe& tokenizer);

// The same for a model: Error(bad_data) that names both values where the tokenizer has ids that are not below
// `vocab_size`.
std::shared_ptr<const Tokenizer> open_tokenizer(const TokenizerRecipe& tokenizer, std::int64_t vocab_size);

// The error with the key in front that it concerns: the tokenizer's where it names the tokenizer's file, else `other`.
Error with_key(const Error& error, const TokenizerRecipe& tokenizer, const std::string& other);

// Covers the files that open_tokenizer() reads: equal hashes mean equal tokens. Throws Error(missing_input).
std::string hash_of_tokenizer(const TokenizerRecipe& tokenizer);

// The id of the "pad_token" that the files beside a tokenizer's name; none where it is no token of `opened`, the same
// tokenizer. Throws Error(bad_data) as read_model_marks() does.
std::optional<std::int64_t> padding_of_tokenizer(const TokenizerRecipe& tokenizer, const Tokenizer& opened);

// The id after which a text's first token is predicted: BOS where the tokenizer has one, whether it puts that before
// texts or not, else EOS, as transformers knows them; none for bytes. Throws Error(bad_data) as read_model_marks()
// does.
std::optional<std::int64_t> prefix_of_tokenizer(const TokenizerRecipe& tokenizer, const Tokenizer& opened);

}  // namespace llmtrain
