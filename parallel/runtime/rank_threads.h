// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/running_recipe.h"
#include "parallel/comm/local/local_world.h"

namespace llmtrain {

// How long a rank may be silent: launch.watchdog_seconds, whose 0 is a time longer than any run.
double watchdog_seconds(const LaunchRecipe& launch);

// What ranks are given that are threads of this process, with no network: one that does not end after another has
// failed ends the process, with the failure in the log and as its exit code.
LocalOptions rank_thread_options(const LaunchRecipe& launch);

}  // namespace llmtrain
