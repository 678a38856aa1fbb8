// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/slurm/slurm_start.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "apps/llmtrain/launch/launcher.h"
#include "apps/llmtrain/slurm/sbatch_lines.h"
#include "apps/llmtrain/slurm/shell_text.h"
#include "apps/llmtrain/slurm/slurm_container.h"
#include "core/recipe/slurm/sbatch_option.h"

namespace llmtrain::app {
namespace {

// A shell runs its trap only after the command that it waits for, so the command runs beside it. Slurm announces a
// job's end by SIGUSR1 before it sends SIGTERM; scancel sends SIGTERM alone.
std::string with_signals_passed_on(const std::string& command) {
  return command + R"sh( &
ranks=$!
announced=
terminated=
trap 'announced=1; kill -USR1 "$ranks"' USR1
trap 'terminated=1; kill -TERM "$ranks"' TERM
wait "$ranks"
code=$?
# A signal ends the waiting, with a code above 128, and not the ranks. Bash answers 127 once it has reported their code.
while kill -0 "$ranks" 2>/dev/null; do
  wait "$ranks"
  code=$?
done
if [ "$code" -gt 128 ]; then
  wait "$ranks"
  last=$?
  [ "$last" -ne 127 ] && code=$last
fi
)sh";
}

// For mpirun itself and what it starts on the other nodes; the ranks read the recipe.
std::string interface_option(const LaunchRecipe& launch) {
  if (launch.network_interfaces.empty()) return "";
  return " --mca oob_tcp_if_include " + shell_word(fmt::format("{}", fmt::join(launch.network_interfaces, ",")));
}

// Since Slurm 22.05 srun does not take the number of cores from its job.
std::string srun_options(const SlurmRecipe& slurm) {
  std::string text = " --kill-on-bad-exit=1", mpi = " --mpi=pmix";
  if (slurm.cpus_per_task > 0) text += fmt::format(" --cpus-per-task={}", slurm.cpus_per_task);
  if (!slurm.cpu_bind.empty()) text += " --cpu-bind=" + shell_word(slurm.cpu_bind);
  for (const std::string& each : slurm.srun) {
    const auto option = sbatch_option(each);
    if (!option) continue;
    if (option->name == "mpi") mpi.clear();
    text += " --" + option->name + (option->value ? "=" + shell_word(*option->value) : "");
  }
  return mpi + text;
}

}  // namespace

std::string start_of_ranks(const Recipe& recipe, const SlurmJob& job, const std::string& more) {
  const LaunchRecipe& launch = recipe.launch;
  const std::string command = apptainer_prefix(recipe, job.folder) + shell_words(job.command) + more;
  if (is_started_by_srun(launch, job.ranks))
    return "srun" + srun_options(launch.slurm) + pyxis_options(launch.slurm.container, job.folder) + " " + command +
           "\ncode=$?\n";
  if (job.ranks == 1) return with_signals_passed_on(command);
  return with_signals_passed_on(
      fmt::format("mpirun --bind-to none{} -n {} {}", interface_option(launch), job.ranks, command));
}

std::string program_of_job(const SlurmRecipe& slurm) {
  return slurm.container.program.empty() ? program_file() : slurm.container.program;
}

}  // namespace llmtrain::app
