// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <string>
#include <vector>

#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

Verdict check_head_classes(const Recipe& recipe, const Known&) {
  const auto& classifier = recipe.model.classifier;
  // Labels have the same rule, and the classifier may be theirs.
  if (!classifier || recipe.data.labels || recipe.data.images) return {};
  return must_name_classes(classifier->classes);
}

// A model of images has no other head.
Verdict check_image_classifier(const Recipe& recipe) {
  const auto& classifier = recipe.model.classifier;
  const auto& images = recipe.data.images;
  if (!classifier)
    return Refusal{
        "null, which leaves no head",
        "must be a section, such as {\"classes\": [\"cat\", \"dog\"]}, where model.architecture is \"vit\" or "
        "\"resnet\", or be left out with data.images"};
  if (classifier->of != ClassifiedPart::sequence)
    return Refusal{"tells classes of tokens, and images have none", "must be of \"sequence\", an image"};
  if (!images || classifier->classes == images->classes) return {};
  return Refusal{"has other classes than data.images.classes, or another order",
                 "must have the same ones in the same order, or be left out"};
}

Verdict check_span_head(const ClassifierRecipe& classifier, const DataRecipe& data) {
  if (classifier.of != ClassifiedPart::span)
    return Refusal{"tells classes, where data.spans has answers that begin and end somewhere",
                   "must be of \"span\", or be left out"};
  if (!data.spans && !data.train.empty())
    return Refusal{"tells where answers begin and end, of which these data have none", "needs data.spans"};
  if (classifier.classes == span_classes()) return {};
  return Refusal{"has classes of its own, where a span has a start and an end",
                 "must have the classes [\"start\", \"end\"] where it is of \"span\""};
}

Verdict check_classifier(const Recipe& recipe, const Known&) {
  if (is_image_classifier(recipe.model.architecture)) return check_image_classifier(recipe);
  const auto& classifier = recipe.model.classifier;
  const DataRecipe& data = recipe.data;
  if (!classifier) {
    if ((!data.labels && !data.spans) || !is_encoder(recipe.model.architecture)) return {};
    return Refusal{"null, which leaves the head for tokens",
                   std::string("must be a section, or be left out, with data.") + (data.labels ? "labels" : "spans")};
  }
  if (!is_encoder(recipe.model.architecture)) {
    // Other rules say so of labels and spans, and the classifier may be theirs.
    if (data.labels || data.spans) return {};
    return Refusal{"tells classes, and this model predicts the tokens that follow",
                   "needs an encoder, \"vit\" or \"resnet\" as model.architecture", "null"};
  }
  if (data.masking)
    return Refusal{"tells classes, not the tokens that data.masking hides", "must be null with data.masking", "null"};
  if (data.spans || classifier->of == ClassifiedPart::span) return check_span_head(*classifier, data);
  if (!data.labels) {
    if (data.train.empty()) return {};
    return Refusal{"tells classes, of which these data have none", "needs data.labels"};
  }
  const bool is_of_words = data.labels->of == LabelledPart::words;
  if (is_of_words != (classifier->of == ClassifiedPart::token))
    return Refusal{fmt::format("tells classes of {}, where data.labels has those of {}",
                               is_of_words ? "sequences" : "tokens", is_of_words ? "words" : "texts"),
                   fmt::format("must be of \"{}\", or be left out", is_of_words ? "token" : "sequence")};
  if (classifier->classes != data.labels->classes)
    return Refusal{"has other classes than data.labels.classes, or another order",
                   "must have the same ones in the same order, or be left out"};
  return {};
}

}  // namespace

std::vector<Rule> classifier_rules() {
  return {
      {"/model/classifier/classes", {"/data/labels", "/data/images"}, check_head_classes},
      {"/model/classifier",
       {"/model/architecture", "/data/labels", "/data/labels/of", "/data/labels/classes", "/data/masking",
        "/data/images", "/data/images/classes", "/data/spans", "/data/train"},
       check_classifier},
  };
}

}  // namespace llmtrain
