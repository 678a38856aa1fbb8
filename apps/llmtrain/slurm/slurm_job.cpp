// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/slurm/slurm_job.h"

#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <filesystem>
#include <optional>

#include "apps/llmtrain/launch/executable_recipe.h"
#include "apps/llmtrain/launch/launch.h"
#include "apps/llmtrain/launch/launcher.h"
#include "apps/llmtrain/plan/recipe_file.h"
#include "apps/llmtrain/slurm/sbatch_lines.h"
#include "apps/llmtrain/slurm/shell_syntax.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain::app {
namespace {

// Commas and colons divide a list of mounts.
void require_mountable_folder(const std::string& file, const SlurmContainerRecipe& container) {
  const std::string folder = std::filesystem::current_path().string();
  if (container.image.empty() || folder.find_first_of(",:") == std::string::npos) return;
  throw Error(ExitCode::bad_recipe,
              fmt::format("{}: /launch/slurm/container: the working folder {} has a comma or colon in its name, and "
                          "cannot be mounted; call llmtrain in another one",
                          file, folder));
}

}  // namespace

RunLaunch launch_in_job(const std::string& file, Recipe& recipe) {
  require_executable(recipe, file);
  require_training_data(recipe, file);
  const std::int64_t ranks = ranks_to_start(recipe);
  const std::int64_t nodes = recipe.cluster.nodes, per_node = (ranks + nodes - 1) / nodes;
  named_with_file(file, [&] {
    require_rules(recipe, {.ranks = ranks, .devices_per_node = recipe.cluster.devices_per_node.value_or(per_node)});
    return 0;
  });
  const SlurmRecipe& slurm = recipe.launch.slurm;
  if (const std::string complaint = complaint_of_bash(slurm.setup); !complaint.empty())
    throw Error(ExitCode::bad_recipe,
                fmt::format("{}: /launch/slurm/setup: {}; must be complete commands of bash", file, complaint));
  require_mountable_folder(file, slurm.container);
  std::optional<Launcher> launcher;
  if (ranks > 1)
    launcher = Launcher{
        .name = is_started_by_srun(recipe.launch, ranks) ? "srun" : "mpirun", .ranks = ranks, .ranks_here = per_node};
  return decide_launch(file, recipe, launcher);
}

void warn_without_gpus(const Recipe& recipe) {
  if (recipe.cluster.device != DeviceKind::automatic || recipe.launch.slurm.gpus == GpuRequest::none) return;
  log().warn(
      "cluster.device is \"auto\": the job asks for no GPUs; set it to \"cuda\" or \"cpu\", or launch.slurm.gpus to "
      "\"none\"");
}

}  // namespace llmtrain::app
