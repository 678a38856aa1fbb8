// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/recipe/recipe.h"

namespace llmtrain::app {

// Parts of a job's script around the run. All know the job's number as `job`.

// Modules, the recipe's own lines and the number of threads.
std::string setup_of_job(const SlurmRecipe& slurm);

// A folder of the job's own on each node's disk for temporary files and caches, which are lost with it.
std::string make_scratch(const Recipe& recipe);
std::string remove_scratch(const Recipe& recipe);

// At the start: keeps Slurm itself from putting the job back more often than the recipe allows.
std::string limit_requeues(const SlurmRecipe& slurm);
// After a run that has stopped with `code`: puts the job back into the queue where it has to go on. `has_traps`: the
// script outlives a SIGTERM, and notes it in `terminated`, and its announcement in `announced`.
std::string requeue(const SlurmRecipe& slurm, bool has_traps);

}  // namespace llmtrain::app
