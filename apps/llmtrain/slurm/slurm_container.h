// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/recipe/recipe.h"

namespace llmtrain::app {

// Options of srun by which pyxis starts each rank in its container, each after a space; `folder` is the job's, which
// the container sees too. Empty where there is none, or another runtime starts it.
std::string pyxis_options(const SlurmContainerRecipe& container, const std::string& folder);

// Words of shell, with a space at the end, in front of a command that is to be executed in the container; empty where
// there is none, or srun starts it.
std::string apptainer_prefix(const Recipe& recipe, const std::string& folder);

}  // namespace llmtrain::app
