// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/slurm/slurm_flags.h"

#include <algorithm>

#include "apps/llmtrain/flags.h"
#include "core/recipe/slurm/sbatch_option.h"

namespace llmtrain::app {
namespace {

// A flag's option is in place of the recipe's of the same name.
std::vector<std::string> with_flags(const std::vector<std::string>& recipes, const std::vector<std::string>& flags) {
  std::vector<std::string> all;
  const auto name = [](const std::string& text) {
    const auto option = sbatch_option(text);
    return option ? option->name : text;
  };
  for (const std::string& each : recipes)
    if (std::ranges::none_of(flags, [&](const std::string& flag) { return name(flag) == name(each); }))
      all.push_back(each);
  all.insert(all.end(), flags.begin(), flags.end());
  return all;
}

}  // namespace

std::vector<Override> SlurmFlags::overrides(const std::string& file, const std::vector<Override>& others) const {
  std::vector<Override> all;
  const auto set = [&](const char* key, const std::optional<std::string>& text) {
    if (text) all.push_back(text_override(std::string("launch.slurm.") + key, *text));
  };
  set("launcher", launcher);
  set("partition", partition);
  set("account", account);
  set("qos", qos);
  set("memory", memory);
  if (cpus_per_task) all.push_back("launch.slurm.cpus_per_task=" + *cpus_per_task);
  if (exclusive) all.emplace_back("launch.slurm.exclusive=true");
  if (!sbatch.empty())
    all.push_back(
        texts_override("launch.slurm.sbatch", with_flags(read_recipe(file, others).launch.slurm.sbatch, sbatch)));
  return all;
}

std::vector<CLI::Option*> add_slurm_flags(CLI::App& command, SlurmFlags& flags) {
  return {
      choose_from(command.add_option("--launcher", flags.launcher,
                                     "What starts the ranks within the job (launch.slurm.launcher)"),
                  {"srun", "mpirun"}),
      command.add_option("--partition", flags.partition, "Partition that takes the job (launch.slurm.partition)")
          ->type_name("NAME"),
      command.add_option("--account", flags.account, "Account that is charged (launch.slurm.account)")
          ->type_name("NAME"),
      command.add_option("--qos", flags.qos, "Quality of service (launch.slurm.qos)")->type_name("NAME"),
      command.add_option("--cpus-per-task", flags.cpus_per_task, "Cores of each rank (launch.slurm.cpus_per_task)")
          ->type_name("N"),
      command.add_option("--mem", flags.memory, "Memory on each node, as in 200G; 0: all (launch.slurm.memory)")
          ->type_name("SIZE"),
      command.add_flag("--exclusive", flags.exclusive, "Nodes that no other job shares (launch.slurm.exclusive)"),
      command
          .add_option("--sbatch", flags.sbatch,
                      "Another option of sbatch, as in --sbatch=--constraint=h100; repeatable (launch.slurm.sbatch)")
          ->type_name("OPTION")
          ->allow_extra_args(false)};
}

}  // namespace llmtrain::app
