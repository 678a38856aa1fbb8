// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/model_from/config_reader.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// config.json of gpt_oss and gemma3_text, which have local layers between global ones (model.sliding_window). What
// recipe keys cannot express is a problem of the reader's.
ModelRecipe read_gpt_oss(ConfigReader& reader);
ModelRecipe read_gemma3(ConfigReader& reader);

}  // namespace llmtrain
