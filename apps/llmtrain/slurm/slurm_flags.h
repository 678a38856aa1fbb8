// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/recipe/recipe_io.h"

namespace llmtrain::app {

// Flags that stand for keys of launch.slurm, by the names that sbatch has for them.
struct SlurmFlags {
  std::optional<std::string> launcher, partition, account, qos, cpus_per_task, memory;
  bool exclusive = false;
  std::vector<std::string> sbatch;  // besides the recipe's, in place of those of the same name

  // The keys that they stand for, in a recipe that `others` change. Throws Error(bad_recipe) where it is malformed.
  std::vector<Override> overrides(const std::string& file, const std::vector<Override>& others) const;
};

// Returns the flags.
std::vector<CLI::Option*> add_slurm_flags(CLI::App& command, SlurmFlags& flags);

}  // namespace llmtrain::app
