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
#include "apps/llmtrain/launch/executable_recipe.h"
#include "apps/llmtrain/launch/launch.h"
#include "apps/llmtrain/launch/launcher.h"
#include "apps/llmtrain/launch/slurm_script.h"
#include "apps/llmtrain/plan/recipe_file.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/recipe/recipe_io.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain::app {
namespace {

struct SlurmOptions {
  std::string recipe;
  std::vector<Override> overrides;
  RunFlags flags;
  std::string launcher = "srun";
};

std::vector<std::string> command_of_rank(const SlurmOptions& options) {
  std::vector<std::string> command{program_file(), "run", std::filesystem::absolute(options.recipe).string()};
  for (const Override& change : options.overrides) command.insert(command.end(), {"--set", change});
  if (options.flags.directory) command.insert(command.end(), {"--run-dir", *options.flags.directory});
  if (options.flags.ranks) command.insert(command.end(), {"--ranks", *options.flags.ranks});
  return command;
}

int print_script(const SlurmOptions& options) {
  auto overrides = options.overrides;
  for (Override& change : options.flags.overrides()) overrides.push_back(std::move(change));
  const Recipe recipe = read_counted_recipe(options.recipe, overrides);
  // Now, and not when the job has waited for its turn.
  require_executable(recipe, options.recipe);
  require_training_data(recipe, options.recipe);
  SlurmJob job;
  job.ranks = ranks_to_start(recipe);
  const std::int64_t nodes = recipe.cluster.nodes, per_node = (job.ranks + nodes - 1) / nodes;
  named_with_file(options.recipe, [&] {
    require_rules(recipe, {.ranks = job.ranks, .devices_per_node = recipe.cluster.devices_per_node.value_or(per_node)});
    return 0;
  });
  job.launcher = options.launcher == "mpirun" ? JobLauncher::mpirun : JobLauncher::srun;
  job.folder = std::filesystem::current_path().string();
  job.command = command_of_rank(options);
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
  choose_from(command->add_option("--launcher", options->launcher, "What starts the ranks within the job"),
              {"srun", "mpirun"})
      ->capture_default_str();
  command->footer("Example:\n  llmtrain slurm recipe.json > job.sh && sbatch job.sh");
  command->callback([options, &action] { action = [options] { return print_script(*options); }; });
}

}  // namespace llmtrain::app
