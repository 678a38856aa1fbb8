// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/data/epochs.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/plan/more_devices.h"
#include "apps/llmtrain/slurm/slurm_flags.h"
#include "apps/llmtrain/slurm/slurm_job.h"
#include "apps/llmtrain/slurm/slurm_script.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain::app {
namespace {

struct SlurmOptions {
  std::string recipe;
  std::vector<Override> overrides;
  RunFlags flags;
  SlurmFlags slurm;
};

std::vector<std::string> command_of_rank(const SlurmOptions& options, const Recipe& recipe) {
  std::vector<std::string> command{program_of_job(recipe.launch.slurm), "run",
                                   std::filesystem::absolute(options.recipe).string()};
  for (const Override& change : options.overrides) command.insert(command.end(), {"--set", change});
  if (options.flags.directory) command.insert(command.end(), {"--run-dir", *options.flags.directory});
  if (options.flags.ranks) command.insert(command.end(), {"--ranks", *options.flags.ranks});
  return command;
}

int print_script(const SlurmOptions& options) {
  auto overrides = options.overrides;
  for (Override& change : options.flags.overrides()) overrides.push_back(std::move(change));
  for (Override& change : options.slurm.overrides(options.recipe, overrides)) overrides.push_back(std::move(change));
  Recipe recipe = read_counted_recipe(options.recipe, overrides);
  SlurmJob job;
  job.ranks = launch_in_job(options.recipe, recipe).ranks;
  warn_without_gpus(recipe);
  check_job(options.recipe, recipe);
  job.folder = std::filesystem::current_path().string();
  job.command = command_of_rank(options, recipe);
  write_script(slurm_script(recipe, job));
  return 0;
}

}  // namespace

void add_slurm(CLI::App& program, Action& action) {
  const auto options = std::make_shared<SlurmOptions>();
  CLI::App* command = program.add_subcommand("slurm", "Prints an sbatch script that trains a recipe");
  add_recipe_argument(*command, options->recipe)->required();
  add_set_flag(*command, options->overrides);
  add_run_dir_flag(*command, options->flags);
  add_ranks_flag(*command, options->flags);
  add_slurm_flags(*command, options->slurm);
  command->footer("Example:\n  llmtrain slurm recipe.json > job.sh && sbatch job.sh");
  command->callback([options, &action] { action = [options] { return print_script(*options); }; });
}

}  // namespace llmtrain::app
