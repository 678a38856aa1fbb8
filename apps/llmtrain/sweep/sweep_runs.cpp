// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/sweep/sweep_runs.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <fstream>
#include <numeric>
#include <random>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "apps/llmtrain/data/epochs.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/launch/executable_recipe.h"
#include "apps/llmtrain/launch/launch.h"
#include "apps/llmtrain/plan/plan.h"
#include "apps/llmtrain/plan/recipe_file.h"
#include "apps/llmtrain/slurm/slurm_job.h"
#include "apps/llmtrain/sweep/axes.h"
#include "core/base/error.h"
#include "core/base/file.h"

namespace llmtrain::app {
namespace {

namespace fs = std::filesystem;

// A folder's name has at most 255 bytes on most file systems.
constexpr std::size_t longest_name = 120;

// "micro=2_peak=0.001": characters that mean something to shells and file systems become "-".
std::string name_of(const std::vector<std::string>& keys, const std::vector<std::string>& values) {
  std::string name;
  for (std::size_t i = 0; i < keys.size(); ++i) name += (name.empty() ? "" : "_") + keys[i] + "=" + values[i];
  for (char& letter : name)
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0 &&
        std::string_view("._=+-").find(letter) == std::string::npos)
      letter = '-';
  return name.substr(0, longest_name);
}

// Names that two combinations share are told apart by a number.
std::string unused(const std::string& name, std::set<std::string>& used) {
  std::string candidate = name;
  for (int count = 2; !used.insert(candidate).second; ++count) candidate = fmt::format("{}-{}", name, count);
  return candidate;
}

// Whether it is a job of its own. Several nodes take one.
bool is_a_job(RunsOn runs_on, const Recipe& recipe) {
  return runs_on == RunsOn::slurm || (runs_on == RunsOn::either && recipe.cluster.nodes > 1);
}

// Reads and checks the recipe as `run` does before it starts ranks.
void check(const RunsAsked& asked, SweepRun& run) {
  const std::string& file = asked.recipe;
  try {
    // Its own directory, which may hold the run that goes on.
    std::vector<Override> overrides = run.overrides;
    overrides.insert(overrides.end(), asked.of_jobs.begin(), asked.of_jobs.end());
    overrides.push_back(text_override("log.directory", run.directory.string()));
    Recipe recipe = read_counted_recipe(file, overrides);
    require_executable(recipe, file);
    require_training_data(recipe, file);
    const RunLaunch launch =
        is_a_job(asked.runs_on, recipe) ? launch_in_job(file, recipe) : decide_launch(file, recipe, std::nullopt);
    const auto layout = layout_for_run(file, recipe, launch);
    require_fields(layout->graph(), recipe.data, file);
    run.ranks = launch.ranks;
    run.recipe = std::move(recipe);
  } catch (const Error& error) {
    // A missing file is missing for all of them.
    if (error.code() != ExitCode::bad_recipe) throw;
    run.refusal = first_problem(error);
  }
}

std::vector<std::vector<std::string>> chosen(std::vector<std::vector<std::string>> combinations,
                                             const RunsAsked& asked) {
  if (!asked.random || *asked.random >= static_cast<std::int64_t>(combinations.size())) return combinations;
  std::vector<std::size_t> order(combinations.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(static_cast<std::uint64_t>(asked.seed));
  // By hand, because the standard's shuffle differs from library to library.
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  order.resize(static_cast<std::size_t>(*asked.random));
  std::vector<std::vector<std::string>> drawn;
  for (const std::size_t index : order) drawn.push_back(std::move(combinations[index]));
  return drawn;
}

}  // namespace

SweepRuns sweep_runs(const RunsAsked& asked) {
  SweepRuns sweep{.axes = axes_of("--over", asked.over), .directory = {}, .runs = {}};
  sweep.directory = asked.directory ? fs::path(*asked.directory)
                                    : fs::path(read_recipe(asked.recipe, asked.overrides).log.directory + "-sweep");
  const std::vector<std::string> keys = short_names(sweep.axes);
  std::set<std::string> names;
  for (std::vector<std::string>& values : chosen(combinations_of(sweep.axes), asked)) {
    SweepRun run;
    run.name = unused(name_of(keys, values), names);
    run.directory = sweep.directory / run.name;
    run.log = sweep.directory / (run.name + ".log");
    run.exit_code_file = sweep.directory / (run.name + ".exit_code");
    run.overrides = asked.overrides;
    for (std::size_t i = 0; i < values.size(); ++i) run.overrides.push_back(sweep.axes[i].key + "=" + values[i]);
    run.values = std::move(values);
    check(asked, run);
    sweep.runs.push_back(std::move(run));
  }
  if (std::ranges::none_of(sweep.runs, [](const SweepRun& run) { return run.refusal.empty(); }))
    throw Error(ExitCode::bad_recipe,
                fmt::format("--over: every combination is refused; the first: {}", sweep.runs.front().refusal));
  return sweep;
}

void write_exit_code(const SweepRun& run) {
  write_file_atomically(run.exit_code_file, std::to_string(run.exit_code.value_or(0)) + "\n");
}

void forget_exit_code(const SweepRun& run) {
  std::error_code error;
  fs::remove(run.exit_code_file, error);
}

void read_exit_codes(SweepRuns& sweep) {
  for (SweepRun& run : sweep.runs) {
    std::ifstream file(run.exit_code_file);
    if (int code = 0; file >> code) run.exit_code = code;
  }
}

}  // namespace llmtrain::app
