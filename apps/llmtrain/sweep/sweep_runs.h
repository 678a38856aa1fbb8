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
  std::vector<std::string> values;  // one per axis
  std::string name;                 // "micro=2_peak=0.001": of its folder
  std::filesystem::path directory;  // of the run
  std::filesystem::path log;        // what the run says
  std::vector<Override> overrides;  // of the recipe's file
  std::int64_t ranks = 1;           // that it starts
  std::string refusal;              // why it cannot run; empty if it can
  std::optional<int> exit_code{};   // once it has ended
};

struct RunsAsked {
  std::string recipe;                    // file
  std::vector<Override> overrides;       // of every run
  std::vector<std::string> over;         // "KEY=V,V"
  std::optional<std::string> directory;  // of all runs' folders; by default the recipe's run directory with "-sweep"
  std::optional<std::int64_t> random;    // so many of the combinations, drawn by `seed`
  std::int64_t seed = 0;
};

struct SweepRuns {
  std::vector<SweepAxis> axes;
  std::filesystem::path directory;
  std::vector<SweepRun> runs;  // in the order in which they are to run
};

// All that runs would refuse before their first step is found here. Throws Error for what holds for every combination,
// and Error(bad_recipe) where all of them are refused.
SweepRuns sweep_runs(const RunsAsked& asked);

}  // namespace llmtrain::app
