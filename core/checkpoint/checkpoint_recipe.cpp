// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/checkpoint_recipe.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"

namespace llmtrain {
namespace {

std::string manifest_name(const CheckpointReader& checkpoint) {
  return (checkpoint.folder() / "manifest.json").string();
}

nlohmann::ordered_json model_keys(const ModelRecipe& model) {
  Recipe recipe;
  recipe.model = model;
  return to_json(recipe)["model"];
}

// Keys that describe how a model was initialised or trained, not what it computes.
// rope_theta counts as free where positions are learned, because nothing reads it.
bool is_free(const std::string& key, const ModelRecipe& model) {
  return key == "architecture" || key == "dropout" || key == "init_std" ||
         (key == "rope_theta" && model.position == Position::learned);
}

}  // namespace

Recipe recipe_of(const CheckpointReader& checkpoint, const std::vector<Override>& overrides) {
  // Parsed without the overrides first, to tell whose mistake an error is: the manifest's or the user's.
  const std::string text = checkpoint.state().recipe.dump(), name = manifest_name(checkpoint);
  try {
    const Recipe recipe = parse_recipe(text, name, checkpoint.folder());
    if (overrides.empty()) return recipe;
  } catch (const Error& error) {
    throw Error(ExitCode::bad_data,
                std::string(error.what()) + "\n" + name + ": its recipe was written by an incompatible version");
  }
  return parse_recipe(text, name, checkpoint.folder(), overrides);
}

void check_same_model(const ModelRecipe& model, const ModelRecipe& other, const std::string& source) {
  // Compared as JSON, so that a new key of the model is compared without further code.
  const auto ours = model_keys(model), theirs = model_keys(other);
  std::string problems;
  for (const auto& item : ours.items())
    if (!is_free(item.key(), other) && item.value() != theirs[item.key()])
      problems.append(problems.empty() ? "" : "\n")
          .append("/model/" + item.key() + ": is " + item.value().dump() + " in the recipe and " +
                  theirs[item.key()].dump() + " in " + source + "; the two must be the same to start from its weights");
  if (!problems.empty()) throw Error(ExitCode::bad_recipe, problems);
}

void check_same_model(const ModelRecipe& model, const CheckpointReader& checkpoint) {
  check_same_model(model, recipe_of(checkpoint).model, manifest_name(checkpoint));
}

}  // namespace llmtrain
