// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <memory>

#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain::app {

void add_schema(CLI::App& program, Action& action) {
  CLI::App* command = program.add_subcommand("schema", "Prints the JSON Schema of a recipe");
  command->footer("Example:\n  llmtrain schema > recipe.schema.json");
  const auto markdown = std::make_shared<bool>(false);
  command->add_flag("--markdown", *markdown, "Print a Markdown table of all keys instead, as in docs/recipe.md");
  command->callback([markdown, &action] {
    action = [markdown] {
      *markdown ? write_result(recipe_reference_markdown()) : write_json(recipe_schema().dump(2) + "\n");
      return 0;
    };
  });
}

}  // namespace llmtrain::app
