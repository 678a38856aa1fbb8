// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/recipe/model_recipe.h"

namespace llmtrain {

// A key whose value can be planned but not run.
struct PlannedKey {
  bool is_wanted = false;  // whether the recipe asks for it
  const char* pointer = nullptr;
  std::string value;
  std::string instead;
};

// All such keys of models: what no module computes yet, and a new module removes.
std::vector<PlannedKey> planned_model_keys(const ModelRecipe& model);

// The pointers of those that this model asks for, "/model/latent_attention and /model/moe/gate_scale"; empty where it
// can be run.
std::string planned_model_words(const ModelRecipe& model);

}  // namespace llmtrain
