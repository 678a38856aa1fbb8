// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/json_file.h"
#include "core/recipe/rules/rules.h"
#include "core/recipe/slurm/sbatch_option.h"

namespace llmtrain {
namespace {

// Rules of how a Slurm job's script starts the ranks. Its shell takes all other texts as they are.
bool has_a_control_character(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char letter) { return std::iscntrl(letter) != 0; });
}

Verdict must_be_one_line(const std::string& text) {
  if (!has_a_control_character(text)) return {};
  return Refusal{quoted_text(text) + " would break out of its line", "must have no control character"};
}

constexpr std::array own_srun_options = {
    "container-image", "container-mounts", "container-workdir", "cpu-bind",         "cpus-per-task", "kill-on-bad-exit",
    "nodes",           "ntasks",           "ntasks-per-node",   "ntasks-per-socket"};

Verdict check_srun(const Recipe& recipe, const Known&) {
  const SlurmRecipe& slurm = recipe.launch.slurm;
  if (slurm.srun.empty()) return {};
  if (slurm.launcher != JobLauncher::srun)
    return Refusal{"mpirun starts the ranks", "needs launch.slurm.launcher \"srun\"", "[]"};
  for (const std::string& text : slurm.srun) {
    if (auto refusal = must_be_one_line(text)) return refusal;
    const auto option = sbatch_option(text);
    if (!option)
      return Refusal{quoted_text(text) + " is no long option of srun",
                     "must be --name or --name=value, as in --gpu-bind=none"};
    const auto is_meant = [&](std::string_view own) { return own.starts_with(option->name); };
    if (std::ranges::any_of(own_srun_options, is_meant))
      return Refusal{fmt::format("--{} is set by the script, from other keys", option->name),
                     "must be an option that the script leaves open"};
  }
  return {};
}

Verdict check_cpu_bind(const Recipe& recipe, const Known&) {
  const SlurmRecipe& slurm = recipe.launch.slurm;
  if (slurm.cpu_bind.empty()) return {};
  if (slurm.launcher != JobLauncher::srun)
    return Refusal{"mpirun starts the ranks, and binds none", "needs launch.slurm.launcher \"srun\"", "\"\""};
  return must_be_one_line(slurm.cpu_bind);
}

// The shell puts variables in, and does nothing else with it.
Verdict check_scratch(const Recipe& recipe, const Known&) {
  const std::string& text = recipe.launch.slurm.scratch;
  if (text.empty()) return {};
  const bool is_plain = std::ranges::all_of(text, [](unsigned char letter) {
    return std::isalnum(letter) != 0 ||
           std::string_view("/._-+=@${}").find(static_cast<char>(letter)) != std::string_view::npos;
  });
  if (is_plain && (text.front() == '/' || text.front() == '$')) return {};
  return Refusal{
      quoted_text(text) + " is no folder that is the same wherever the job runs",
      "must be an absolute path of letters, digits and ._-+=@, or begin with a variable such as $SLURM_TMPDIR"};
}

Verdict check_modules(const Recipe& recipe, const Known&) {
  for (const std::string& name : recipe.launch.slurm.modules) {
    if (auto refusal = must_be_one_line(name)) return refusal;
    if (name.starts_with('-') || name.find(' ') != std::string::npos)
      return Refusal{quoted_text(name) + " is no module's name", "must be a list with one name in each entry"};
  }
  return {};
}

Verdict check_setup(const Recipe& recipe, const Known&) {
  for (const std::string& line : recipe.launch.slurm.setup)
    if (std::ranges::any_of(line, [](unsigned char letter) { return std::iscntrl(letter) != 0 && letter != '\t'; }))
      return Refusal{quoted_text(line) + " is more than a line", "must be a list with one line in each entry"};
  return {};
}

Verdict check_container_image(const Recipe& recipe, const Known&) {
  const SlurmContainerRecipe& container = recipe.launch.slurm.container;
  if (container.image.starts_with('-'))
    return Refusal{quoted_text(container.image) + " would be taken as an option", "must be an image's name or path"};
  return must_be_one_line(container.image);
}

Verdict check_runtime(const Recipe& recipe, const Known&) {
  const SlurmRecipe& slurm = recipe.launch.slurm;
  if (slurm.container.image.empty() || slurm.container.runtime != ContainerRuntime::pyxis) return {};
  if (slurm.launcher == JobLauncher::srun) return {};
  return Refusal{"pyxis is an option of srun, and mpirun starts the ranks",
                 "needs launch.slurm.launcher \"srun\", or \"apptainer\" here", "\"apptainer\""};
}

Verdict check_mounts(const Recipe& recipe, const Known&) {
  const SlurmContainerRecipe& container = recipe.launch.slurm.container;
  if (container.mounts.empty()) return {};
  if (container.image.empty()) return Refusal{"there is no container", "needs launch.slurm.container.image", "[]"};
  for (const std::string& mount : container.mounts) {
    if (auto refusal = must_be_one_line(mount)) return refusal;
    if (mount.front() != '/' || mount.find(',') != std::string::npos)
      return Refusal{quoted_text(mount) + " is no mount",
                     "must be absolute paths without commas: /data, or /data:/mnt/data"};
  }
  return {};
}

Verdict check_program(const Recipe& recipe, const Known&) {
  const SlurmContainerRecipe& container = recipe.launch.slurm.container;
  if (container.program.empty()) return {};
  if (container.image.empty()) return Refusal{"there is no container", "needs launch.slurm.container.image", "\"\""};
  return must_be_one_line(container.program);
}

}  // namespace

std::vector<Rule> slurm_start_rules() {
  return {
      {"/launch/slurm/srun", {"/launch/slurm/launcher"}, check_srun},
      {"/launch/slurm/cpu_bind", {"/launch/slurm/launcher"}, check_cpu_bind},
      {"/launch/slurm/scratch", {}, check_scratch},
      {"/launch/slurm/modules", {}, check_modules},
      {"/launch/slurm/setup", {}, check_setup},
      {"/launch/slurm/container/image", {}, check_container_image},
      {"/launch/slurm/container/runtime", {"/launch/slurm/container/image", "/launch/slurm/launcher"}, check_runtime},
      {"/launch/slurm/container/mounts", {"/launch/slurm/container/image"}, check_mounts},
      {"/launch/slurm/container/program", {"/launch/slurm/container/image"}, check_program}};
}

}  // namespace llmtrain
