// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "apps/llmtrain/sweep/sweep_runs.h"
#include "core/page/text_layout.h"
#include "parallel/run/report/run_figures.h"

namespace llmtrain::app {

// What the runs of a sweep have measured, from their folders.
struct SweepResults {
  std::vector<std::optional<RunFigures>> figures;  // of each run; none of one that has measured nothing
  // Whether all that have measured something have evaluated: then the runs are judged by their best validation loss,
  // else by the last loss of training.
  bool have_evaluated = false;
  std::optional<std::size_t> best;  // of the runs that are done, the one of the lowest loss
};

SweepResults sweep_results(const SweepRuns& sweep);

// A line for each run, the best ones first. Newline-terminated.
std::string sweep_results_text(const SweepRuns& sweep, const SweepResults& results, const TextStyle& style);

// {"axes": [{"key", "values"}], "judged_by": "validation_loss" or "loss", "best": index or null, "runs": [{"set": {key:
// value}, "directory", "log", "refused": null or why, "exit_code": null before the run has ended, "steps", "loss",
// "validation_loss", "tokens_per_second", "memory_bytes"}]}: null where nothing was measured. Indented by two spaces,
// with a trailing newline.
std::string sweep_results_json(const SweepRuns& sweep, const SweepResults& results);

}  // namespace llmtrain::app
