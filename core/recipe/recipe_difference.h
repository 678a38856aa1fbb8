// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/json/json_text.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// A key with different values in two recipes.
struct KeyDifference {
  std::string key;  // "batch.micro", as --set takes it
  Json first;       // null where that recipe lacks the section or the key
  Json second;

  std::string pointer() const;  // "/batch/micro"
  std::string text() const;     // "batch.micro: 4 -> 8"
};

// The keys in which two recipes differ, with all defaults filled in, in the order of the key table. A section that one
// of them lacks is listed by its keys, lists of sections of one length are compared entry by entry, and other lists are
// one value.
std::vector<KeyDifference> recipe_differences(const Recipe& first, const Recipe& second);

// The keys of the model section in which the two compute something else, given the same weights. Keys that describe how
// a model is initialised or trained may differ: its preset, dropout, init_std, and of experts capacity, priority,
// losses and jitter.
std::vector<KeyDifference> model_differences(const ModelRecipe& model, const ModelRecipe& other);

}  // namespace llmtrain
