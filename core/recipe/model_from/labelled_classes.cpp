// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/model_from/labelled_classes.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "core/json/json_text.h"
#include "core/recipe/model_recipe.h"

namespace llmtrain {
namespace {

// Whether the document says so, or may mean the one that model.from names.
bool may_be(const Json& model, std::span<const std::string_view> architectures) {
  const auto architecture = model.find("architecture");
  if (architecture == model.end()) return model.contains("from");
  return std::ranges::any_of(architectures, [&](std::string_view name) { return *architecture == name; });
}

constexpr std::array<std::string_view, 2> encoders{"bert", "roberta"};
constexpr std::array<std::string_view, 2> image_classifiers{"vit", "resnet"};

bool are_names(const Json& classes) {
  return classes.is_array() && std::ranges::all_of(classes, [](const Json& name) { return name.is_string(); });
}

}  // namespace

void fill_classifier(Document& document) {
  if (!document.holds("/model") || !document.holds("/data")) return;
  Json& model = document.root.at("model");
  const Json& data = document.root.at("data");
  if (!model.is_object() || model.contains("classifier") || !data.is_object()) return;
  const auto has_classes = [&](const char* section) {
    return data.contains(section) && data.at(section).is_object() && data.at(section).contains("classes") &&
           are_names(data.at(section).at("classes"));
  };
  if (has_classes("labels") && may_be(model, encoders)) {
    const Json& labels = data.at("labels");
    const bool is_of_words = labels.contains("of") && labels.at("of") == "words";
    model["classifier"] = {{"of", is_of_words ? "token" : "sequence"}, {"classes", labels.at("classes")}};
  } else if (data.contains("spans") && data.at("spans").is_object() && may_be(model, encoders)) {
    model["classifier"] = {{"of", "span"}, {"classes", span_classes()}};
  } else if (has_classes("images") && may_be(model, image_classifiers)) {
    model["classifier"] = {{"of", "sequence"}, {"classes", data.at("images").at("classes")}};
  }
}

}  // namespace llmtrain
