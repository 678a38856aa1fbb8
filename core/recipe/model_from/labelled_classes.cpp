// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/model_from/labelled_classes.h"

#include <algorithm>
#include <string>

#include "core/json/json_text.h"

namespace llmtrain {
namespace {

// Whether the document says so, or may mean the one that model.from names.
bool may_be_encoder(const Json& model) {
  const auto architecture = model.find("architecture");
  if (architecture == model.end()) return model.contains("from");
  return *architecture == "bert" || *architecture == "roberta";
}

bool are_names(const Json& classes) {
  return classes.is_array() && std::ranges::all_of(classes, [](const Json& name) { return name.is_string(); });
}

}  // namespace

void fill_classifier(Document& document) {
  const std::string labels_pointer = "/data/labels";
  if (!document.holds("/model") || !document.holds(labels_pointer)) return;
  Json& model = document.root.at("model");
  const Json& labels = document.root.at(Json::json_pointer(labels_pointer));
  if (!model.is_object() || model.contains("classifier") || !labels.is_object() || !may_be_encoder(model)) return;
  if (!labels.contains("classes") || !are_names(labels.at("classes"))) return;
  const bool is_of_words = labels.contains("of") && labels.at("of") == "words";
  model["classifier"] = {{"of", is_of_words ? "token" : "sequence"}, {"classes", labels.at("classes")}};
}

}  // namespace llmtrain
