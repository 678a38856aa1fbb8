// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/parameter.h"
#include "core/recipe/model_recipe.h"

namespace llmtrain {

// Whether the parameter begins with random weights where the others of the model are those of `origin`: it is of a head
// for classes that are not the origin's. A layer before the logits (the pooler) stays where the origin has one:
// `is_stored`.
bool begins_anew(const Parameter& parameter, const ModelRecipe& model, const ModelRecipe& origin, bool is_stored);

}  // namespace llmtrain
