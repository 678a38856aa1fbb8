// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/model_from/config_reader.h"
#include "core/recipe/model_from/huggingface_config.h"

namespace llmtrain {

// The config.json of DeepSeek-V2 or V3. Its multi-token prediction is left out, as transformers leaves it out.
ModelRecipe read_deepseek(ConfigReader& reader, HuggingfaceType type);

}  // namespace llmtrain
