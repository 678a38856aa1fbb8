// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/recipe/recipe.h"

namespace llmtrain::app {

// Whether a run with this device trains on the processor: "auto" takes a GPU where NVIDIA's driver is.
bool trains_on_processor(DeviceKind device);

// What `calibrate` writes and "auto" reads where it exists: local.json in profiles_folder() or, where the user may not
// write there, in llmtrain of XDG_CONFIG_HOME or ~/.config.
std::filesystem::path calibrated_profile();

// Where no one has calibrated this machine, measures its processor for about two seconds in a process of its own, says
// so, and keeps the profile in LLMTRAIN_CACHE, else in llmtrain of XDG_CACHE_HOME or ~/.cache; a profile that is there
// already is taken. From then on profile_of_machine() is that profile, in this process and in those that it starts.
// Only for recipes whose profile is "auto"; not where a GPU trains, where nothing can be kept, where the training
// runtime is not installed, where a measurement fails, or in one of several ranks that a launcher has started: plans
// then assume an average processor. Blocks.
void measure_machine(const Recipe& recipe);

// The calibrated profile, else the measured one; empty where there is neither.
std::filesystem::path profile_of_machine();

}  // namespace llmtrain::app
