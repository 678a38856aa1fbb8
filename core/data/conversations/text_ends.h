// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/recipe/recipe.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

// The ids of which each ends a text that the model of a checkpoint writes: the first that the tokenizer puts behind a
// document, those that the model's own files name (core/tokenizer/model_marks.h), and the one that ends an answer in
// the conversations that it was trained on. Files that are no longer there say nothing. Throws Error(bad_data).
std::vector<std::int64_t> text_ends(const Recipe& recipe, const std::filesystem::path& checkpoint,
                                    const Tokenizer& tokenizer);

// Writes the chat templates that a recipe trained with into an exported model's folder, unless those are there: as
// transformers reads them, chat_template.jinja and those with names in their folder. Nothing without data.fine_tuning
// or a tokenizer. Throws Error(missing_input), Error(bad_data), Error(cannot_write).
void write_chat_templates(const DataRecipe& recipe, const std::filesystem::path& folder);

}  // namespace llmtrain
