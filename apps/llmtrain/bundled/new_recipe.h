// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace llmtrain::app {

struct NewRecipe {
  std::string model;                    // a recipe whose model is taken
  std::optional<std::string> data;      // a file, folder or glob, relative to the working directory
  std::string machine = "auto";         // cluster.profile
  std::optional<std::int64_t> devices;  // none: those of one node of the profile
  std::int64_t steps = 1000;
  std::optional<double> epochs;  // in place of the steps; of `data`
  std::filesystem::path output;
};

// A recipe that trains the model on the data: its layout is the fastest that fits the devices and can run, as
// search_layouts() finds it. Only keys that a person would want to see or change are in it; all others have their
// defaults. Throws Error(bad_recipe) where the devices do not fill nodes or nothing fits them, Error(missing_input) for
// data that does not exist, and with epochs what steps_of_epochs() throws.
nlohmann::ordered_json new_recipe(const NewRecipe& wanted);

// The recipe with a "description" in each section, which says what its keys mean.
nlohmann::ordered_json commented(const nlohmann::ordered_json& recipe);

// Each key of the recipe: its path, its value, and what the recipe's schema says of it, in lines of at most `width`
// columns.
std::string explained(const nlohmann::ordered_json& recipe, std::size_t width);

}  // namespace llmtrain::app
