// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/recipe/recipe.h"
#include "core/recipe/recipe_io.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/plan/report/plan.h"

namespace llmtrain::test {

// The folder of the bundled recipes.
std::filesystem::path recipes();

// A profile of recipes/clusters.
ClusterProfile profile(const std::string& name);

// The profile that a recipe names.
ClusterProfile profile_of(const Recipe& recipe);

// A recipe of recipes/papers, by its name.
Recipe paper(const std::string& name, const std::vector<Override>& overrides = {});

// The names of all recipes in recipes/papers.
std::vector<std::string> paper_names();

// A GPT with four layers on eight V100 in one node.
Recipe small_gpt(const std::vector<Override>& overrides = {});

double peak_bytes(const PlanReport& report);

}  // namespace llmtrain::test
