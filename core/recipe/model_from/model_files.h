// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include "core/recipe/recipe.h"

namespace llmtrain {

// What lies beside the weights in a folder of transformers.

// tokenizer.json, else tokenizer.model; bytes where the folder has neither.
TokenizerRecipe tokenizer_in(const std::filesystem::path& folder);

// The file with the folder's chat template: chat_template.jinja, which counts before others in transformers, too, else
// a tokenizer_config.json with "chat_template". Throws Error(bad_data) for one that is no JSON.
std::optional<std::filesystem::path> chat_template_in(const std::filesystem::path& folder);

// The folder of transformers from which a checkpoint's model came, as far as it is still there: what the checkpoint
// keeps of it, else what its recipe's training.init_from names. Empty: none.
std::filesystem::path origin_of_model(const Recipe& recipe, const std::filesystem::path& checkpoint);

}  // namespace llmtrain
