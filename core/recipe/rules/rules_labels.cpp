// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "core/json/json_text.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

Verdict check_labels(const Recipe& recipe, const Known&) {
  const DataRecipe& data = recipe.data;
  if (!data.labels) return {};
  if (!is_encoder(recipe.model.architecture))
    return Refusal{"has labels for texts, and this model predicts the tokens that follow",
                   "needs an encoder as model.architecture", "null"};
  return must_be_alone(data, "texts with labels in rows", {{"denoising", data.denoising.has_value()}});
}

Verdict check_classes(const Recipe& recipe, const Known&) {
  const auto& labels = recipe.data.labels;
  return labels ? must_name_classes(labels->classes) : Verdict{};
}

Verdict check_pair(const Recipe& recipe, const Known&) {
  const auto& labels = recipe.data.labels;
  if (!labels || !labels->text_pair || labels->of == LabelledPart::text) return {};
  return Refusal{shown_text(*labels->text_pair) + " is a second text, whose words have no labels",
                 "must be null where data.labels.of is \"words\"", "null"};
}

}  // namespace

std::vector<Rule> label_rules() {
  return {
      {"/data/labels/classes", {}, check_classes},
      {"/data/labels/text_pair", {"/data/labels/of"}, check_pair},
      {"/data/labels",
       {"/model/architecture", "/data/fine_tuning", "/data/masking", "/data/denoising", "/data/document_mask",
        "/data/curriculum/sequence_length", "/data/curriculum/vocabulary_rarity"},
       check_labels},
  };
}

}  // namespace llmtrain
