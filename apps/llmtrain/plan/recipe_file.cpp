// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/recipe_file.h"

#include <cstddef>
#include <string_view>

#include "apps/llmtrain/machine/machine_profile.h"
#include "apps/llmtrain/machine/profiles.h"
#include "parallel/plan/planner/planner.h"

namespace llmtrain::app {

Error with_file(const std::string& file, const Error& error) {
  // Other errors name their own file.
  if (error.code() != ExitCode::bad_recipe || std::string_view(error.what()).starts_with(file)) return error;
  std::string text = file + ": ";
  for (const char letter : std::string_view(error.what())) {
    text += letter;
    if (letter == '\n') text += file + ": ";
  }
  return {error.code(), text};
}

std::string first_problem(const Error& error) {
  const std::string text = error.what();
  const std::string line = text.substr(0, text.find('\n'));
  const std::size_t pointer = line.find(": /");
  return pointer == std::string::npos ? line : line.substr(pointer + 2);
}

PlanReport report_of(const std::string& file, const std::vector<Override>& overrides) {
  const Recipe recipe = read_recipe(file, overrides);
  measure_machine(recipe);
  return named_with_file(file, [&] { return make_plan(recipe, profile_of(recipe)).report; });
}

}  // namespace llmtrain::app
