// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/slurm/slurm_setup.h"

#include <spdlog/fmt/fmt.h>

#include "apps/llmtrain/slurm/shell_text.h"
#include "core/base/error.h"

namespace llmtrain::app {
namespace {

// Once on each node of the job.
std::string on_each_node(const Recipe& recipe, const std::string& command) {
  if (recipe.cluster.nodes == 1) return command;
  return fmt::format("srun --ntasks={} --ntasks-per-node=1 {}", recipe.cluster.nodes, command);
}

}  // namespace

std::string setup_of_job(const SlurmRecipe& slurm) {
  std::string text;
  if (!slurm.modules.empty())
    text += fmt::format("module load {} || exit {}\n", shell_words(slurm.modules),
                        static_cast<int>(ExitCode::missing_input));
  for (const std::string& line : slurm.setup) text += line + "\n";
  // The empty line ends one that goes on. Options that the lines have set would end the script before it has looked at
  // the run's exit code.
  if (!slurm.setup.empty()) text += "\nset +eu\n";
  if (slurm.cpus_per_task > 0)
    text += fmt::format("export OMP_NUM_THREADS=\"${{OMP_NUM_THREADS:-{}}}\"\n", slurm.cpus_per_task);
  return text;
}

std::string make_scratch(const Recipe& recipe) {
  const std::string& folder = recipe.launch.slurm.scratch;
  if (folder.empty()) return "";
  return fmt::format(R"sh(scratch="{0}"
if [ ! -d "$scratch" ]; then
  echo "launch.slurm.scratch: $(hostname) has no folder \"$scratch\"" >&2
  exit {1}
fi
export TMPDIR="$scratch/llmtrain-$job"
export LLMTRAIN_CACHE="${{LLMTRAIN_CACHE-$TMPDIR/cache}}"
export CUDA_CACHE_PATH="${{CUDA_CACHE_PATH-$TMPDIR/cuda}}"
{2} || exit {1}
)sh",
                     folder, static_cast<int>(ExitCode::cannot_write), on_each_node(recipe, "mkdir -p \"$TMPDIR\""));
}

std::string remove_scratch(const Recipe& recipe) {
  return recipe.launch.slurm.scratch.empty() ? "" : on_each_node(recipe, "rm -rf \"$TMPDIR\"") + "\n";
}

std::string limit_requeues(const SlurmRecipe& slurm) {
  // With 0 the job's options say so.
  if (slurm.requeue_limit.value_or(0) == 0) return "";
  return fmt::format(R"sh(# The last time: neither does Slurm put it back, after preemption or a lost node.
if [ "${{SLURM_RESTART_COUNT:-0}}" -ge {} ]; then
  scontrol update JobId="$job" Requeue=0
fi
)sh",
                     *slurm.requeue_limit);
}

std::string requeue(const SlurmRecipe& slurm, bool has_traps) {
  std::string text;
  if (has_traps)
    text = R"sh(# A job that was cancelled is ending already, and one that is to be preempted is not.
if [ -n "$terminated" ] && [ -z "$announced" ] &&
  [ "$(squeue --noheader --job "$job" --format %T 2>/dev/null)" = COMPLETING ]; then
  exit "$code"
fi
)sh";
  text += fmt::format(
      R"sh(# {0}: stopped on request or before its limit, with its checkpoint saved. The same command continues the run.
if [ "$code" -eq {0} ]; then
)sh",
      static_cast<int>(ExitCode::stopped));
  if (!slurm.requeue_limit) return text + "  scontrol requeue \"$job\"\nfi\n";
  return text + fmt::format(R"sh(  if [ "${{SLURM_RESTART_COUNT:-0}}" -lt {0} ]; then
    scontrol requeue "$job"
  else
    echo "launch.slurm.requeue_limit: the job has been in the queue {0} times more; submit it again to continue" >&2
  fi
fi
)sh",
                            *slurm.requeue_limit);
}

}  // namespace llmtrain::app
