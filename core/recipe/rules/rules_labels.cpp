// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <set>
#include <string>
#include <vector>

#include "core/json/json_text.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

Verdict must_be_null(const char* beside) {
  return Refusal{"is for texts with labels in rows", std::string("must be null with ") + beside, "null"};
}

Verdict check_labels(const Recipe& recipe, const Known&) {
  const DataRecipe& data = recipe.data;
  if (!data.labels) return {};
  if (!is_encoder(recipe.model.architecture))
    return Refusal{"has labels for texts, and this model predicts the tokens that follow",
                   "needs an encoder as model.architecture", "null"};
  if (data.fine_tuning) return must_be_null("data.fine_tuning");
  if (data.masking) return must_be_null("data.masking");
  if (data.document_mask) return must_be_null("data.document_mask");
  if (data.curriculum.sequence_length) return must_be_null("data.curriculum.sequence_length");
  if (data.curriculum.vocabulary_rarity) return must_be_null("data.curriculum.vocabulary_rarity");
  return {};
}

Verdict check_classes(const Recipe& recipe, const Known&) {
  const auto& labels = recipe.data.labels;
  if (!labels) return {};
  if (labels->classes.size() < 2)
    return Refusal{fmt::format("has {}", labels->classes.empty() ? "no class" : "one class"),
                   "must be the names of at least two classes"};
  std::set<std::string> names;
  for (const std::string& name : labels->classes)
    if (!names.insert(name).second)
      return Refusal{"has " + shown_text(name) + " twice", "must be names that each stand for one class"};
  return {};
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
       {"/model/architecture", "/data/fine_tuning", "/data/masking", "/data/document_mask",
        "/data/curriculum/sequence_length", "/data/curriculum/vocabulary_rarity"},
       check_labels},
  };
}

}  // namespace llmtrain
