// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/model_from/config_reader.h"
#include "core/recipe/model_from/huggingface_config.h"

namespace llmtrain {

// Experts as config.json has them of a type with experts; they drop no tokens. The other keys of `model` have been
// read.
MixtureOfExpertsRecipe read_experts(ConfigReader& reader, HuggingfaceType type, const ModelRecipe& model);

}  // namespace llmtrain
