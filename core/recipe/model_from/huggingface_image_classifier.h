// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/model_from/config_reader.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The config.json of ViT.
ModelRecipe read_vit(ConfigReader& reader);

}  // namespace llmtrain
