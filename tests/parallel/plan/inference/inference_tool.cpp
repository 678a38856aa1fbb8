// SPDX-License-Identifier: Apache-2.0
// inference_tool RECIPES: reads {"recipe": …, "request": "KEY=VALUE,…"} from standard input, one per line, and prints
// what `llmtrain plan --inference REQUEST --json` prints of each on a line, or {"refused": …}, with the profiles and
// programs of the folder RECIPES.
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/recipe/recipe_io.h"
#include "parallel/plan/inference/report/inference_report.h"

namespace {

using namespace llmtrain;

const ClusterProfile& profile_of(const Recipe& recipe, const std::filesystem::path& recipes) {
  static std::map<std::string, ClusterProfile> profiles;
  const std::string name = recipe.cluster.profile + " " + recipe.cluster.program;
  auto found = profiles.find(name);
  if (found == profiles.end()) {
    ClusterProfile profile = load_profile(recipe.cluster.profile, recipes / "clusters");
    profile.program = load_program(recipe.cluster.program, recipes / "programs", profile.device.kind);
    found = profiles.emplace(name, std::move(profile)).first;
  }
  return found->second;
}

Json plan_of(const std::string& text, const std::filesystem::path& recipes) {
  try {
    const Json line = Json::parse(text);
    const Recipe recipe = parse_recipe(line.at("recipe").dump(), "row", "/", {});
    const std::vector<std::string> request = {line.at("request").get<std::string>()};
    const InferencePlanner planner(recipe, profile_of(recipe, recipes));
    return inference_json(planner.plan(parse_request("request", request)));
  } catch (const Error& error) {
    return {{"refused", error.what()}};
  }
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: inference_tool RECIPES < LINES\n";
    return 2;
  }
  for (std::string line; std::getline(std::cin, line);) std::cout << plan_of(line, arguments[1]).dump() << '\n';
  return 0;
}
