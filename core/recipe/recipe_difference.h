// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
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

// Names of classes that have none of their own: LABEL_0, LABEL_1 and so on, as transformers has them.
std::vector<std::string> unnamed_classes(std::size_t count);
// Whether the origin's head tells these classes in this order, for all that it says: its own may have no names.
bool tells_same_classes(const ClassifierRecipe& classifier, const ClassifierRecipe& origin);

// What model_differences() finds of a model and of the one that its first weights are from.
struct OriginDifferences {
  std::vector<KeyDifference> of_weights;    // with which the weights mean another model, or do not fit
  std::vector<KeyDifference> of_positions;  // on which no weight depends: how rotary positions turn, and how far
  std::vector<KeyDifference> of_classes;    // of a head for classes, which begins anew where they differ
  std::optional<KeyDifference> of_tokens;   // the size of a vocabulary that is larger than the origin's
};
OriginDifferences origin_differences(const ModelRecipe& model, const ModelRecipe& origin);

// The rule that a key of OriginDifferences::of_weights breaks: "the two must be the same …".
std::string weights_rule(const KeyDifference& difference);

}  // namespace llmtrain
