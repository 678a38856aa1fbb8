// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/json/json_text.h"
#include "core/page/text_layout.h"
#include "core/recipe/recipe.h"
#include "parallel/run/report/run_figures.h"
#include "parallel/run/report/run_metrics.h"

namespace llmtrain {

struct ComparedRun {
  std::string name;  // the directory as it was given, or its last part where that tells the runs apart
  std::filesystem::path directory;
  Recipe recipe;
  RunMetrics metrics;
  RunFigures figures;
};

// A key in which some run's recipe differs from the first one's.
struct ComparedKey {
  std::string key;
  std::vector<Json> values;  // of each run; null where it lacks the key
};

// Runs side by side.
struct RunComparison {
  std::vector<ComparedRun> runs;
  std::int64_t equal_tokens = 0;  // the most that every run has trained on
  std::vector<ComparedKey> keys;  // without name, description and the run directory
};

// Reads the runs' recipe.json and metrics.jsonl. Throws Error(missing_input) for a directory without a run,
// Error(bad_data) for one whose files cannot be read.
RunComparison compare_runs(const std::vector<std::filesystem::path>& directories);

// Figures, curves of the loss over tokens, and keys. Newline-terminated lines.
std::string comparison_text(const RunComparison& comparison, const TextStyle& style);

// {"runs": [{"directory", "name", "steps", "tokens", "seconds", "loss": {"last", "best", "best_step",
// "at_equal_tokens"}, "validation_loss": null or {"last", "best", "best_step"}, "tokens_per_second", "step_seconds",
// "mfu", "memory_bytes", "tensor_bytes", "skipped"}], "equal_tokens", "recipe_differences": [{"key", "values"}]}.
// Speeds are medians. Indented by two spaces, with a trailing newline.
std::string comparison_json(const RunComparison& comparison);

// A page with the runs' curves over each other, over tokens.
std::string comparison_page(const RunComparison& comparison);

// What the text and the page state of a run, as label and one value per run.
struct ComparedFigure {
  std::string section;
  std::string label;
  std::vector<std::string> values;
};
std::vector<ComparedFigure> compared_figures(const RunComparison& comparison);

}  // namespace llmtrain
