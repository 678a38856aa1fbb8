// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain::app {

// What starts the ranks within a Slurm job.
enum class JobLauncher { srun, mpirun };

struct SlurmJob {
  std::int64_t ranks = 1;
  JobLauncher launcher = JobLauncher::srun;
  std::string folder;                // working directory of the job
  std::vector<std::string> command;  // of each rank: the program and its arguments
};

// An sbatch script that trains the recipe. The job is asked to stop before its limit and when it is preempted, and is
// put into the queue again after each stop with a checkpoint (ExitCode::stopped).
std::string slurm_script(const Recipe& recipe, const SlurmJob& job);

}  // namespace llmtrain::app
