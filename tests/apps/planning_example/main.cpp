// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <filesystem>
#include <iostream>

#include "core/recipe/recipe_io.h"
#include "parallel/plan/planner/planner.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/profile/program.h"
#include "parallel/plan/report/report.h"

// usage: planning_example RECIPE RECIPES_FOLDER   prints the plan as JSON
int main(int argument_count, char** arguments) try {
  if (argument_count != 3) return 2;
  const std::filesystem::path recipes(arguments[2]);
  const llmtrain::Recipe recipe = llmtrain::read_recipe(arguments[1]);
  llmtrain::ClusterProfile profile = llmtrain::load_profile(recipe.cluster.profile, recipes / "clusters");
  profile.program = llmtrain::load_program(recipe.cluster.program, recipes / "programs", profile.device.kind);
  profile.accuracy = llmtrain::accuracy_of(profile, recipes / "scores");
  std::cout << llmtrain::report_json(llmtrain::make_plan(recipe, profile).report);
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
