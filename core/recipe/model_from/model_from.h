// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/json/document.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The model that `model.from` names.
struct ModelOrigin {
  ModelRecipe model;
  std::string file;  // that describes it
};

// Where the document has a usable `model.from` ("hf:" and a Hugging Face folder, a checkpoint's folder or a run's
// directory), reads the description of that model, puts its keys into the document's model section where they are not
// given, and the source into `training.init_from`. `folder` is the base of relative paths. Throws, with the recipe's
// `name` in front, Error(missing_input) and Error(bad_data) for a source that cannot be read.
std::optional<ModelOrigin> fill_model_from(Document& document, const std::string& name,
                                           const std::filesystem::path& folder);

// Reports every key of `model` that the recipe gives and that makes it compute something else than its origin.
void check_model_origin(const ModelRecipe& model, const ModelOrigin& origin, Problems& problems);

}  // namespace llmtrain
