// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/recipe/recipe.h"

namespace llmtrain::app {

// Tells MPI and NCCL, which this process has not yet started, which interfaces of launch.network_interfaces they may
// use; what the user has set in their environment variables stays. Throws Error(bad_recipe) that names the host and its
// interfaces where it lacks one; `file` names the recipe in it.
void use_network_interfaces(const std::string& file, const LaunchRecipe& launch);

}  // namespace llmtrain::app
