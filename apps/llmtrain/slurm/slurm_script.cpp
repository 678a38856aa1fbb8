// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/slurm/slurm_script.h"

#include <spdlog/fmt/fmt.h>

#include "apps/llmtrain/slurm/sbatch_lines.h"
#include "apps/llmtrain/slurm/shell_text.h"
#include "apps/llmtrain/slurm/slurm_setup.h"
#include "apps/llmtrain/slurm/slurm_start.h"
#include "core/base/error.h"
#include "core/checkpoint/checkpoint_folder.h"

namespace llmtrain::app {
namespace {

constexpr const char* lines_about_end =
    R"sh(# The run stops, with a checkpoint, so that it ends before the job does. Older versions of Slurm do not say when.
if [ -z "$SLURM_JOB_END_TIME" ]; then
  end=$(squeue --noheader --job "$job" --format %e 2>/dev/null)
  # Without a text, as without an answer, date would say last midnight.
  [ -n "$end" ] && SLURM_JOB_END_TIME=$(date -d "$end" +%s 2>/dev/null)
fi
[ -n "$SLURM_JOB_END_TIME" ] && export SLURM_JOB_END_TIME

)sh";

// What becomes of a run that has ended, with `code`; `note`: lines that say so elsewhere.
std::string after_run(const Recipe& recipe, std::int64_t ranks, const std::string& note) {
  const std::string check = fmt::format(R"sh(
# srun answers 0 for ranks that it could not start, too.
if [ "$code" -eq 0 ] && [[ "$(cat "$latest" 2>/dev/null)" < "$final" ]]; then
  echo "the run has not reached $final; submit the job again to continue it" >&2
  code={}
fi
)sh",
                                        static_cast<int>(ExitCode::rank_lost));
  return check + remove_scratch(recipe) + note +
         requeue(recipe.launch.slurm, !is_started_by_srun(recipe.launch, ranks)) + "exit \"$code\"\n";
}

// From the job's number, which `job` is, to its end.
std::string body_of_script(const Recipe& recipe, const SlurmJob& job, const std::string& more,
                           const std::string& note) {
  const SlurmRecipe& slurm = recipe.launch.slurm;
  return limit_requeues(slurm) + setup_of_job(slurm) + lines_about_end + make_scratch(recipe) +
         start_of_ranks(recipe, job, more) + after_run(recipe, job.ranks, note);
}

// The file that names the run's newest checkpoint, and the least that it must name once the run is done: any one where
// training.early_stopping may have ended it.
std::string what_is_done(const std::string& directory, std::int64_t steps, bool may_end_early) {
  return "latest=" + shell_word(directory + "/checkpoints/latest") +
         "\nfinal=" + checkpoint_name(may_end_early ? 1 : steps) + "\n";
}

std::string head_of_script(const Recipe& recipe, const SlurmJob& job, const std::string& array) {
  std::string text = "#!/bin/bash\n";
  for (const SbatchLine& line : sbatch_lines(recipe, job.ranks, array)) text += line.text + "\n";
  return text + "\ncd " + shell_word(job.folder) + " || exit 73\n";
}

// "0-3,5%2"
std::string numbers_of(const SlurmArray& array) {
  std::string text;
  for (std::size_t i = 0, end = 0; i < array.runs.size(); i = end + 1) {
    const auto number = [&](std::size_t run) { return std::to_string(array.runs[run].index); };
    for (end = i; end + 1 < array.runs.size() && array.runs[end + 1].index == array.runs[end].index + 1;) ++end;
    text += (text.empty() ? "" : ",") + number(i);
    if (end > i) text += "-" + number(end);
  }
  return text + (array.at_a_time ? fmt::format("%{}", *array.at_a_time) : "");
}

std::string choice_of_run(const SlurmArray& array) {
  std::string text = "case \"$SLURM_ARRAY_TASK_ID\" in\n";
  for (const ArrayRun& run : array.runs) {
    text += fmt::format("{})\nrun=({})\n", run.index, shell_words(run.arguments));
    text += "log=" + shell_word(run.log) + "\nexit_code=" + shell_word(run.exit_code) + "\n";
    text += what_is_done(run.directory, run.steps, run.may_end_early) + ";;\n";
  }
  return text + fmt::format("*)\necho \"the sweep has no run $SLURM_ARRAY_TASK_ID\" >&2\nexit {}\n;;\nesac\n",
                            static_cast<int>(ExitCode::bad_recipe));
}

}  // namespace

std::string slurm_script(const Recipe& recipe, const SlurmJob& job) {
  std::string text = head_of_script(recipe, job, "");
  text += "job=$SLURM_JOB_ID\n";
  text += what_is_done(recipe.log.directory, recipe.training.steps, recipe.training.early_stopping.has_value());
  return text + body_of_script(recipe, job, "", "");
}

std::string slurm_array_script(const Recipe& recipe, const SlurmArray& array) {
  std::string text = head_of_script(recipe, array.job, numbers_of(array));
  text += choice_of_run(array);
  text +=
      fmt::format("mkdir -p {} || exit {}\n", shell_word(array.directory), static_cast<int>(ExitCode::cannot_write));
  text += "rm -f \"$exit_code\"\nexec >> \"$log\" 2>&1\n";
  // The first part alone may be that of all the array's jobs.
  text += "job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\n";
  return text + body_of_script(recipe, array.job, " \"${run[@]}\"", "echo \"$code\" > \"$exit_code\"\n");
}

std::string shared_by_array(const Recipe& recipe, const SlurmJob& job) { return body_of_script(recipe, job, "", ""); }

}  // namespace llmtrain::app
