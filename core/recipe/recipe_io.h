// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain {

// One `--set pointer.path=JSON`, as the user wrote it. A value that is not JSON is taken as a string.
using Override = std::string;

// Reads, overrides, checks and resolves a recipe file. Relative paths in it are resolved against the file's folder,
// those in an override against the working directory. Throws Error(bad_recipe) with every error of the recipe, one per
// line: `<file>: <JSON pointer>: <what is wrong>; <rule>; did you mean …?`, where <file> is `--set` for errors in an
// override; Error(missing_input) when the file does not exist. A recipe with `model.from` takes its model section from
// there, and its weights unless it says otherwise; Error(missing_input) and Error(bad_data) then also concern that
// source. `log.directory` stays relative to the working directory, as `--run-dir` is.
Recipe read_recipe(const std::filesystem::path& file, const std::vector<Override>& overrides = {});

// The same from text; `name` stands for the file in messages, relative paths resolve against `folder`.
Recipe parse_recipe(std::string_view text, const std::string& name, const std::filesystem::path& folder,
                    const std::vector<Override>& overrides = {});

// The resolved recipe with every key written out, in the key table's order. parse_recipe() of its text returns the same
// Recipe.
nlohmann::ordered_json to_json(const Recipe& recipe);

// The recipe with every key whose default follows from other keys at that default, whatever it holds.
Recipe with_dependent_defaults(const Recipe& recipe);

// JSON Schema (draft-07) of a recipe, with a description for each key.
nlohmann::ordered_json recipe_schema();

// A Markdown table of every key: the values it accepts, its default and its meaning. docs/recipe.md is generated from
// it.
std::string recipe_reference_markdown();

}  // namespace llmtrain
