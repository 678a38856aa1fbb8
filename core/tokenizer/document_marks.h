// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/tokenizer/added_tokens.h"
#include "core/tokenizer/pieces/json_fields.h"
#include "core/tokenizer/text_templates.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// The tokenizer_config.json beside a tokenizer's file, whether there is one or not.
std::filesystem::path config_beside(const std::filesystem::path& file);

// Whether that file says that special tokens are not found in texts ("split_special_tokens" of transformers). Throws
// Error(bad_data).
bool splits_special_tokens(const std::filesystem::path& file);

// What belongs around a document of `root`, a tokenizer.json: the marks that its template of one text has before the
// text and after it. Where it has none after it, the end-of-text token: "eos_token" of the tokenizer_config.json beside
// `file`, else <|endoftext|>, <|end_of_text|>, <eos> or </s>, whichever is an added token. Throws Error(bad_data).
DocumentMarks document_marks(const std::filesystem::path& file, const JsonFields& root, const TextTemplates& templates,
                             const std::vector<AddedToken>& added);

}  // namespace llmtrain
