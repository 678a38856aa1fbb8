// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/recipe/recipe.h"

namespace llmtrain::app {

// "#SBATCH --nodes=2", and the key of the recipe that decides it.
struct SbatchLine {
  std::string text;
  std::string key;
};

// Whether srun starts the ranks as a step of the job: a single rank needs it only for what srun does besides.
bool is_started_by_srun(const LaunchRecipe& launch, std::int64_t ranks);

// What a job of so many ranks asks Slurm for; `array`: the numbers of a job array, "0-3%2", or empty.
std::vector<SbatchLine> sbatch_lines(const Recipe& recipe, std::int64_t ranks, const std::string& array);

}  // namespace llmtrain::app
