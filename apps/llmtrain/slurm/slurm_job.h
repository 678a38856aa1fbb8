// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/recipe/recipe.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain::app {

// How the ranks of a job that trains the file's recipe will find themselves started. Writes launch.ranks into the
// recipe. Throws Error(bad_recipe) for what they would refuse: now, and not when the job has waited for its turn.
RunLaunch launch_in_job(const std::string& file, Recipe& recipe);

// Warns where the job will train on processors because nobody has said that it is to have GPUs.
void warn_without_gpus(const Recipe& recipe);

}  // namespace llmtrain::app
