// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/installation.h"
#include "apps/llmtrain/machine/profiles.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/units.h"
#include "core/graph/graph.h"
#include "core/page/text_table.h"
#include "core/recipe/recipe_io.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain::app {
namespace {

struct BundledRecipe {
  std::string name;  // that selects it on a command line
  std::string file;
  std::string model;
  std::int64_t parameters = 0;
  std::int64_t devices = 0;
  std::string description;
};

std::string model_words(const ModelRecipe& model) {
  std::string words = fmt::format("{} layers × {}", model.layers, model.hidden_size);
  if (model.moe) words += fmt::format(", {} experts", model.moe->experts);
  return words;
}

BundledRecipe bundled_recipe(const std::filesystem::path& file) {
  const auto path = bundled_recipes() / file;
  const Recipe recipe = read_recipe(path);
  const std::int64_t per_node = recipe.cluster.devices_per_node.value_or(1);
  // The description is the reader's, not part of a Recipe.
  const auto text = nlohmann::json::parse(read_file(path));
  return {file.stem().string(),
          path.string(),
          model_words(recipe.model),
          Graph::build(recipe.model).parameter_count(),
          world_of(recipe, per_node).ranks,
          text.value("description", "")};
}

std::string json_of(const std::vector<BundledRecipe>& recipes) {
  auto list = nlohmann::ordered_json::array();
  for (const BundledRecipe& each : recipes)
    list.push_back({{"name", each.name},
                    {"file", each.file},
                    {"model", each.model},
                    {"parameters", each.parameters},
                    {"devices", each.devices},
                    {"description", each.description}});
  return list.dump(2) + "\n";
}

std::string table_of(const std::vector<BundledRecipe>& recipes) {
  const TextStyle style = style_of_output();
  TextTable table({{"recipe", Align::left}, {"model", Align::left}, {"parameters"}, {"devices"}});
  // --json has the whole description.
  for (const BundledRecipe& each : recipes)
    table.add({{each.name},
               {each.model},
               {format_count(static_cast<double>(each.parameters))},
               {std::to_string(each.devices)}},
              each.description);
  std::string text = table.text(style) + '\n';
  const std::string next =
      "llmtrain plan NAME prices one; llmtrain new --model NAME makes a recipe of your own from its model.";
  return text + paragraph(next, style.width);
}

int show_recipes(bool json) {
  if (bundled_recipes().empty())
    throw Error(ExitCode::missing_input,
                "recipes: none lie beside this program; run llmtrain from its build folder or its installation");
  std::vector<BundledRecipe> recipes;
  for (const auto& file : bundled_recipe_files()) recipes.push_back(bundled_recipe(file));
  json ? write_json(json_of(recipes)) : write_result(table_of(recipes));
  return static_cast<int>(ExitCode::done);
}

}  // namespace

void add_recipes(CLI::App& program, Action& action) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* command = program.add_subcommand("recipes", "Lists the recipes that come with the program");
  command->add_flag("--json", *json, "Print JSON");
  command->footer("Examples:\n  llmtrain recipes\n  llmtrain plan llama3-8b");
  command->callback([json, &action] { action = [json] { return show_recipes(*json); }; });
}

}  // namespace llmtrain::app
