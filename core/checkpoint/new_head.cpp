// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/new_head.h"

#include "core/recipe/recipe_difference.h"

namespace llmtrain {

bool begins_anew(const Parameter& parameter, const ModelRecipe& model, const ModelRecipe& origin, bool is_stored) {
  if (!model.classifier || !parameter.name.starts_with("head.")) return false;
  if (origin.classifier && tells_same_classes(*model.classifier, *origin.classifier)) return false;
  return !is_stored || parameter.local_name.starts_with("classifier.");
}

}  // namespace llmtrain
