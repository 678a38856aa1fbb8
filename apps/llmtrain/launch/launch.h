// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "apps/llmtrain/launch/launcher.h"
#include "core/recipe/recipe.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain::app {

// launch.ranks, else as many as parallel.data asks for, else nodes × devices_per_node where they are given, else one
// replica's.
std::int64_t ranks_to_start(const Recipe& recipe);

// Whose rank this process is in a run of the recipe. What srun and torchrun tell one process alone is also there in the
// shell that they start, or is left over; where the recipe asks for more ranks, that is nobody's.
std::optional<Launcher> launcher_of(const Recipe& recipe, const std::optional<Launcher>& started_by);

// Decides how many ranks a run has and what they are, and writes launch.ranks into the recipe: the launcher's world,
// else launch.ranks, else parallel.data where it is given, else nodes × devices_per_node where they are given, else
// one. Throws Error(bad_recipe), starting with `file`, where that contradicts the recipe or its backend.
RunLaunch decide_launch(const std::string& file, Recipe& recipe, const std::optional<Launcher>& launcher);

// Whether this process has to start the ranks, as processes of their own.
bool starts_processes(const RunLaunch& launch, const std::optional<Launcher>& launcher);

}  // namespace llmtrain::app
