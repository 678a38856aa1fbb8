// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <vector>

#include "parallel/run/report/metrics_rows.h"

namespace llmtrain {

struct RunMetrics {
  std::vector<TrainingRow> training;       // by step
  std::vector<EvaluationRow> evaluations;  // by step
};

// The metrics of the run in that folder.
inline std::filesystem::path metrics_file(const std::filesystem::path& folder) { return folder / "metrics.jsonl"; }

// Throws Error(missing_input) where the folder has no recipe or no metrics.
void require_trained_run(const std::filesystem::path& folder);

// Reads a metrics.jsonl. Numbers that were not finite, which JSON writes as null, are not a number. Lines that are not
// rows are passed over: a run under way may be about to complete its last one. Throws Error(missing_input) where the
// file does not exist, and Error(bad_data) where it cannot be read.
RunMetrics read_metrics(const std::filesystem::path& file);

}  // namespace llmtrain
