// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/model_from/config_reader.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// config.json of qwen3_next and nemotron_h, which have layers of linear attention between others
// (model.linear_attention, model.layer_kinds). What recipe keys cannot express is a problem of the reader's.
ModelRecipe read_qwen3_next(ConfigReader& reader);
ModelRecipe read_nemotron_h(ConfigReader& reader);

}  // namespace llmtrain
