// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/sweep/sweep_script.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>

#include "apps/llmtrain/plan/more_devices.h"
#include "apps/llmtrain/slurm/sbatch_lines.h"
#include "apps/llmtrain/slurm/slurm_job.h"
#include "apps/llmtrain/slurm/slurm_script.h"
#include "core/base/error.h"

namespace llmtrain::app {
namespace {

constexpr const char* way_out = "leave it out of --over, and make a sweep for each of its values with --set";

std::string line_at(const std::vector<SbatchLine>& lines, std::size_t index) {
  return index < lines.size() ? "\"" + lines[index].text + "\"" : "nothing";
}

// The key of a line that one of them has and the other has not.
void require_same_lines(const SweepRun& one, const SweepRun& other) {
  const auto ones = sbatch_lines(one.recipe, one.ranks, ""), others = sbatch_lines(other.recipe, other.ranks, "");
  const auto [mine, its] = std::ranges::mismatch(ones, others, {}, &SbatchLine::text, &SbatchLine::text);
  const auto at = static_cast<std::size_t>(mine - ones.begin());
  if (mine == ones.end() && its == others.end()) return;
  const std::string key = others.size() > ones.size() ? its->key : mine->key;
  throw Error(ExitCode::bad_recipe,
              fmt::format("--over: {} differs between runs, and an array has one set of #SBATCH lines: {} of {} and {} "
                          "of {}; {}",
                          key, line_at(ones, at), one.name, line_at(others, at), other.name, way_out));
}

void require_same_job(const SweepRun& one, const SweepRun& other) {
  require_same_lines(one, other);
  const SlurmJob job{.ranks = one.ranks, .folder = {}, .command = {program_of_job(one.recipe.launch.slurm)}};
  const SlurmJob its{.ranks = other.ranks, .folder = {}, .command = {program_of_job(other.recipe.launch.slurm)}};
  if (shared_by_array(one.recipe, job) != shared_by_array(other.recipe, its))
    throw Error(ExitCode::bad_recipe,
                fmt::format("--over: a key of launch.slurm, or launch.network_interfaces, differs between {} and {}, "
                            "and an array starts all runs alike; {}",
                            one.name, other.name, way_out));
}

ArrayRun array_run(std::size_t index, const SweepRun& run) {
  ArrayRun task;
  task.index = index;
  task.arguments = {"--run-dir", run.directory.string()};
  for (const Override& change : run.overrides) task.arguments.insert(task.arguments.end(), {"--set", change});
  task.directory = run.directory.string();
  task.log = run.log.string();
  task.exit_code = run.exit_code_file.string();
  task.steps = run.recipe.training.steps;
  task.may_end_early = run.recipe.training.early_stopping.has_value();
  return task;
}

}  // namespace

std::string sweep_script(const std::string& recipe, const SweepRuns& sweep, std::optional<std::int64_t> at_a_time) {
  SlurmArray array{.job = {}, .runs = {}, .directory = sweep.directory.string(), .at_a_time = at_a_time};
  const SweepRun* first = nullptr;
  for (std::size_t index = 0; index < sweep.runs.size(); ++index) {
    const SweepRun& run = sweep.runs[index];
    if (!run.refusal.empty()) continue;
    if (first == nullptr) first = &run;
    require_same_job(*first, run);
    check_job(run.name, run.recipe);
    array.runs.push_back(array_run(index, run));
  }
  // sweep_runs() has refused a sweep without any.
  array.job.ranks = first->ranks;
  array.job.folder = std::filesystem::current_path().string();
  array.job.command = {program_of_job(first->recipe.launch.slurm), "run", std::filesystem::absolute(recipe).string(),
                       "--quiet"};
  warn_without_gpus(first->recipe);
  return slurm_array_script(first->recipe, array);
}

}  // namespace llmtrain::app
