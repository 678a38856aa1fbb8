// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/recipe/recipe.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain {

// The recipe of the run that wrote a checkpoint, changed by `overrides`. The manifest is data, so an unreadable recipe
// in it is Error(bad_data); mistakes in the overrides are Error(bad_recipe).
Recipe recipe_of(const CheckpointReader& checkpoint, const std::vector<Override>& overrides = {});

// Throws Error(bad_recipe) that names every key in which `model` computes something else than the model of the file
// `source`: tensors of equal shapes do not imply the same model.
void check_same_model(const ModelRecipe& model, const ModelRecipe& other, const std::string& source);
// The same with the model of a checkpoint, and what recipe_of() throws.
void check_same_model(const ModelRecipe& model, const CheckpointReader& checkpoint);

}  // namespace llmtrain
