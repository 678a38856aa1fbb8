// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/llmtrain/sweep/sweep_runs.h"

namespace llmtrain::app {

// An sbatch script that trains the runs of a sweep which can run, as the tasks of a job array with the numbers that
// they have among all runs; so many at a time, none: Slurm decides. Throws Error(bad_recipe) where they need different
// jobs, and names the key.
std::string sweep_script(const std::string& recipe, const SweepRuns& sweep, std::optional<std::int64_t> at_a_time);

}  // namespace llmtrain::app
