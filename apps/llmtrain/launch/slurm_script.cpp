// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/launch/slurm_script.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint_folder.h"

namespace llmtrain::app {
namespace {

// Seconds before the job's end at which Slurm sends its signal, up to a minute earlier: a twentieth of the limit. The
// run itself stops as late as its checkpoint allows, if that is before.
int signal_seconds(double limit) {
  constexpr double without_limit = 60, least = 10, most = 120;
  return static_cast<int>(limit > 0 ? std::clamp(limit / 20, least, most) : without_limit);
}

// For bash: in single quotes, where only these themselves mean anything.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char character : text)
    if (character == '\'') {
      result += "'\\''";
    } else {
      result += character;
    }
  return result + "'";
}

std::string joined(const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& argument : command) text += (text.empty() ? "" : " ") + quoted(argument);
  return text;
}

// #SBATCH lines are no shell: a name keeps what needs no quotes there.
std::string plain_name(std::string name) {
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '_' && c != '.'; }, '-');
  return name;
}

std::string options_of(const Recipe& recipe, const SlurmJob& job) {
  const std::int64_t nodes = recipe.cluster.nodes, per_node = (job.ranks + nodes - 1) / nodes;
  const std::string name = plain_name(recipe.name);
  std::string text = "#SBATCH --job-name=" + name + "\n";
  text += fmt::format("#SBATCH --nodes={}\n#SBATCH --ntasks={}\n#SBATCH --ntasks-per-node={}\n", nodes, job.ranks,
                      per_node);
  if (recipe.cluster.device == DeviceKind::cuda) text += fmt::format("#SBATCH --gpus-per-node={}\n", per_node);
  // In whole minutes, Slurm's unit.
  if (const double limit = recipe.launch.time_limit_seconds; limit > 0)
    text += fmt::format("#SBATCH --time={:.0f}\n", std::ceil(limit / 60));
  // Without "B:" to the ranks of srun; mpirun's ranks are no steps of Slurm, so the script passes it on.
  text += fmt::format("#SBATCH --signal={}USR1@{}\n", job.launcher == JobLauncher::srun && job.ranks > 1 ? "" : "B:",
                      signal_seconds(recipe.launch.time_limit_seconds));
  text += "#SBATCH --requeue\n#SBATCH --open-mode=append\n";
  text += "#SBATCH --output=" + name + "-%j.log\n";
  return text;
}

// A shell runs its trap only after the command that it waits for, so the command runs beside it.
std::string with_signals_passed_on(const std::string& command) {
  return command + R"sh( &
ranks=$!
trap 'kill -USR1 "$ranks"' USR1
trap 'kill -TERM "$ranks"' TERM
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
  return " --mca oob_tcp_if_include " + quoted(fmt::format("{}", fmt::join(launch.network_interfaces, ",")));
}

std::string start_of(const Recipe& recipe, const SlurmJob& job) {
  const std::string command = joined(job.command);
  if (job.ranks == 1) return with_signals_passed_on(command);
  if (job.launcher == JobLauncher::mpirun)
    return with_signals_passed_on(
        fmt::format("mpirun --bind-to none{} -n {} ", interface_option(recipe.launch), job.ranks) + command);
  return "srun --mpi=pmix --kill-on-bad-exit=1 " + command + "\ncode=$?\n";
}

}  // namespace

std::string slurm_script(const Recipe& recipe, const SlurmJob& job) {
  std::string text = "#!/bin/bash\n" + options_of(recipe, job);
  text += "\ncd " + quoted(job.folder) + " || exit 73\n";
  text +=
      R"sh(# The run stops, with a checkpoint, so that it ends before the job does. Older versions of Slurm do not say when.
if [ -z "$SLURM_JOB_END_TIME" ]; then
  end=$(squeue --noheader --job "$SLURM_JOB_ID" --format %e 2>/dev/null)
  # Without a text, as without an answer, date would say last midnight.
  [ -n "$end" ] && SLURM_JOB_END_TIME=$(date -d "$end" +%s 2>/dev/null)
fi
[ -n "$SLURM_JOB_END_TIME" ] && export SLURM_JOB_END_TIME

)sh";
  text += start_of(recipe, job);
  text +=
      fmt::format(R"sh(
# {0}: stopped on request or before its limit, with its checkpoint saved. The same command continues the run.
if [ "$code" -eq {0} ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
# srun answers 0 for ranks that it could not start, too.
if [ "$code" -eq 0 ] && [[ "$(cat {1} 2>/dev/null)" < {2} ]]; then
  echo "the run has not reached step {3}; submit the job again to continue it" >&2
  code={4}
fi
exit "$code"
)sh",
                  static_cast<int>(ExitCode::stopped), quoted(recipe.log.directory + "/checkpoints/latest"),
                  checkpoint_name(recipe.training.steps), recipe.training.steps, static_cast<int>(ExitCode::rank_lost));
  return text;
}

}  // namespace llmtrain::app
