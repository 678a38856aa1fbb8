// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/model_from/config_reader.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The config.json of BART, and of T5 and T5 1.1.
ModelRecipe read_bart(ConfigReader& reader);
ModelRecipe read_t5(ConfigReader& reader);

}  // namespace llmtrain
