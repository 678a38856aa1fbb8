// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/recipe/recipe.h"
#include "parallel/plan/profile/cluster_profile.h"

namespace llmtrain::app {

// The folders of cluster profiles and of programs: LLMTRAIN_PROFILES and LLMTRAIN_PROGRAMS, else those of the bundled
// recipes, else recipes/clusters and recipes/programs of the working directory.
std::filesystem::path profiles_folder();
std::filesystem::path programs_folder();

// The folder of what measurements say of plans, in the bundled recipes or recipes of the working directory.
std::filesystem::path scores_folder();

// The folder of published measurements, likewise.
std::filesystem::path published_folder();

// The profile and the program that the recipe names, with the error of plans for them. "auto" is what was measured on
// this machine; where GPUs train that nobody has measured, the bundled profile of their kind, or of a kind that stands
// in for it, with a warning, for as many as are visible here. A processor that "auto" finds has this machine's memory.
// Throws as load_profile() does.
ClusterProfile profile_of(const Recipe& recipe);

}  // namespace llmtrain::app
