// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/json/document.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The model that `model.from` names.
struct ModelOrigin {
  ModelRecipe model;
  std::string file;                      // that describes it
  std::optional<std::int64_t> window{};  // of attention; sequences of the model are not longer
  TokenizerRecipe tokenizer{};           // bytes where it has none
  // A folder of transformers, which may have a chat template; none of a run.
  std::optional<std::filesystem::path> folder{};
  std::optional<ChatTemplateRecipe> chat_template{};  // of a run's conversations
  std::optional<ImagesRecipe> images{};               // of a run
};

// The model of a source as `training.init_from` names them. Throws Error(missing_input) and Error(bad_data).
ModelOrigin read_model_origin(const std::string& source);

// Where the document has a usable `model.from` ("hf:" and a Hugging Face folder, a checkpoint's folder or a run's
// directory), reads the description of that model, puts its keys into the document's model section where they are not
// given, its tokenizer, its chat template and its view of images into `data` in the same way, and the source into
// `training.init_from`. A `rope_scaling` that is given is another one as a whole; its original length is by default
// that of the origin's scaling, else the origin's longest sequence. `folder` is the base of relative paths. Throws,
// with the recipe's `name` in front, Error(missing_input) and Error(bad_data) for a source that cannot be read.
std::optional<ModelOrigin> fill_model_from(Document& document, const std::string& name,
                                           const std::filesystem::path& folder);

// Reports every key of `model` that the recipe gives and with which the origin's weights do not mean the same model, or
// do not fit.
void check_model_origin(const ModelRecipe& model, const ModelOrigin& origin, Problems& problems);

// Throws Error(bad_recipe) for a model whose sequences are longer than the window of attention that the model of the
// file `source` has.
void check_window(const ModelRecipe& model, const std::optional<std::int64_t>& window, const std::string& source);

}  // namespace llmtrain
