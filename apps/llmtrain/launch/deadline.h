// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>

#include "core/recipe/recipe.h"

namespace llmtrain::app {

// When a run that begins now has to have ended: launch.time_limit_seconds from now, or the end of the Slurm job that it
// is in (SLURM_JOB_END_TIME, in seconds since 1970), whichever is earlier; none without either.
std::optional<std::chrono::system_clock::time_point> deadline_of(const Recipe& recipe);

}  // namespace llmtrain::app
