// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/llmtrain/slurm/slurm_start.h"
#include "core/recipe/recipe.h"

namespace llmtrain::app {

// An sbatch script that trains the recipe, as its launch.slurm says. The job is asked to stop before its limit and when
// it is preempted, and is put into the queue again after each stop with a checkpoint (ExitCode::stopped).
std::string slurm_script(const Recipe& recipe, const SlurmJob& job);

// A run that one task of a job array trains.
struct ArrayRun {
  std::size_t index = 0;               // the task's number
  std::vector<std::string> arguments;  // after those of the job's command
  std::string directory;               // of the run
  std::string log;                     // file of what the run says
  std::string exit_code;               // file of the exit code of the run, once it has ended
  std::int64_t steps = 0;              // of the run
  bool may_end_early = false;          // training.early_stopping
};

struct SlurmArray {
  SlurmJob job;
  std::vector<ArrayRun> runs;             // in the order of their numbers
  std::string directory;                  // of the runs' logs
  std::optional<std::int64_t> at_a_time;  // none: Slurm decides
};

// The same as an array: a job for each run, of the recipe but for the run's arguments.
std::string slurm_array_script(const Recipe& recipe, const SlurmArray& array);

// What the jobs of an array share of the recipe, besides the #SBATCH lines.
std::string shared_by_array(const Recipe& recipe, const SlurmJob& job);

}  // namespace llmtrain::app
