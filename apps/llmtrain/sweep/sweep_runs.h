// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/recipe/recipe_io.h"
#include "parallel/plan/report/sweep.h"

namespace llmtrain::app {

// One run of a sweep: a recipe with one combination of the axes' values.
struct SweepRun {
  std::vector<std::string> values;         // one per axis
  std::string name;                        // "micro=2_peak=0.001": of its folder
  std::filesystem::path directory;         // of the run
  std::filesystem::path log;               // what the run says
  std::filesystem::path exit_code_file{};  // what it has ended with
  std::vector<Override> overrides;         // of the recipe's file
  std::int64_t ranks = 1;                  // that it starts
  Recipe recipe{};                         // where it can run
  std::string refusal;                     // why it cannot run; empty if it can
  std::optional<int> exit_code{};          // once it has ended
};

// Whose rules runs are checked by; either: of those that another command trains.
enum class RunsOn { this_machine, slurm, either };

struct RunsAsked {
  std::string recipe;                    // file
  std::vector<Override> overrides;       // of every run
  std::vector<std::string> over;         // "KEY=V,V"
  std::optional<std::string> directory;  // of all runs' folders; by default the recipe's run directory with "-sweep"
  std::optional<std::int64_t> random;    // so many of the combinations, drawn by `seed`
  std::int64_t seed = 0;
  RunsOn runs_on = RunsOn::this_machine;
  std::vector<Override> of_jobs = {};  // of the jobs' recipes, besides
};

struct SweepRuns {
  std::vector<SweepAxis> axes;
  std::filesystem::path directory;
  std::vector<SweepRun> runs;  // in the order in which they are to run
};

// All that runs would refuse before their first step is found here. Throws Error for what holds for every combination,
// and Error(bad_recipe) where all of them are refused.
SweepRuns sweep_runs(const RunsAsked& asked);

// With what a run has ended, for read_exit_codes(), until it is started again. Throws Error(cannot_write).
void write_exit_code(const SweepRun& run);
void forget_exit_code(const SweepRun& run);

// The exit codes of the runs that have ended since they were started last.
void read_exit_codes(SweepRuns& sweep);

}  // namespace llmtrain::app
