// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/graph/graph.h"
#include "core/recipe/recipe_io.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain::app {
namespace {

struct ValidateOptions {
  std::vector<std::string> recipes;
  std::vector<Override> overrides;
  bool print = false;
};

std::string with_thousands(std::int64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t end = digits.size(); end > 3; end -= 3) digits.insert(end - 3, ",");
  return digits;
}

std::string verdict(const std::string& file, const Recipe& recipe) {
  // The graph is built for models with experts, too: patterns are checked against the names that they are to match.
  const Graph graph = Graph::build(recipe.model, recipe.precision.high_precision, recipe.training.freeze);
  if (recipe.model.moe) return file + ": ok\n";
  const std::int64_t all = graph.parameter_count(), trained = graph.trained_parameter_count();
  const std::string share = trained < all ? ", " + with_thousands(trained) + " of them trained" : "";
  return file + ": ok, " + with_thousands(all) + " parameters" + share + "\n";
}

ExitCode validate_one(const std::string& file, const ValidateOptions& options) {
  try {
    const Recipe recipe = read_recipe(file, options.overrides);
    for (const std::string& warning : recipe_warnings(recipe)) log().warn("{}: {}", file, warning);
    options.print ? write_json(to_json(recipe).dump(2) + "\n") : write_result(verdict(file, recipe));
    return ExitCode::done;
  } catch (const Error& error) {
    // Standard output is gone: the remaining recipes could not be reported either.
    if (error.code() == ExitCode::cannot_write) throw;
    log().error(error.what());
    return error.code();
  }
}

int validate(const ValidateOptions& options) {
  ExitCode worst = ExitCode::done;
  for (const std::string& file : options.recipes) {
    const ExitCode code = validate_one(file, options);
    // A recipe's own errors outrank a missing file.
    if (worst == ExitCode::done || code == ExitCode::bad_recipe) worst = code;
  }
  return static_cast<int>(worst);
}

}  // namespace

void add_validate(CLI::App& program, Action& action) {
  const auto options = std::make_shared<ValidateOptions>();
  CLI::App* command = program.add_subcommand("validate", "Checks recipes and reports every error at once");
  add_recipe_arguments(*command, options->recipes)->required();
  add_set_flag(*command, options->overrides);
  command->add_flag("--print", options->print, "Print the recipe with every default filled in, as JSON");
  command->footer("Examples:\n  llmtrain validate recipes/*.json\n  llmtrain validate recipe.json --print");
  command->callback([options, &action] { action = [options] { return validate(*options); }; });
}

}  // namespace llmtrain::app
