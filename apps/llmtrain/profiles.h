// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/recipe/recipe.h"
#include "parallel/plan/cost/cluster_profile.h"

namespace llmtrain::app {

// The folder of cluster profiles: LLMTRAIN_PROFILES, else recipes/clusters beside the program's build folder, else
// recipes/clusters of the working directory.
std::filesystem::path profiles_folder();

// The profile and the program that the recipe names, the latter in LLMTRAIN_PROGRAMS or recipes/programs likewise.
// Throws as load_profile() does.
ClusterProfile profile_of(const Recipe& recipe);

}  // namespace llmtrain::app
