// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain::app {

struct SlurmJob {
  std::int64_t ranks = 1;
  std::string folder;                // working directory of the job
  std::vector<std::string> command;  // of each rank: the program and its arguments
};

// Lines of a job's script that start its command, with `more` words of shell after it, as so many ranks, in their
// container, and leave the exit code in `code`.
std::string start_of_ranks(const Recipe& recipe, const SlurmJob& job, const std::string& more);

// The program that the ranks of a job execute: this one, or the one in their container.
std::string program_of_job(const SlurmRecipe& slurm);

}  // namespace llmtrain::app
