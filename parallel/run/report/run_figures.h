// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "parallel/run/report/run_metrics.h"

namespace llmtrain {

// A loss and the step after which it was measured.
struct LossFigure {
  std::int64_t step = 0;
  double loss = 0;
};

// A run in figures, over the rows of its metrics.jsonl. Rows whose value is not a number count for no best value and no
// median.
struct RunFigures {
  std::int64_t steps = 0;
  std::int64_t tokens = 0;
  double seconds = 0;  // of all the rows' steps: with log.every 1, the time of training
  std::optional<LossFigure> last, best;
  std::optional<LossFigure> last_validation, best_validation;
  double tokens_per_second = 0;  // medians; not a number without rows
  double step_seconds = 0;
  double mfu = 0;
  std::int64_t memory_bytes = 0;  // peaks
  std::int64_t tensor_bytes = 0;
  std::int64_t skipped = 0;
};

RunFigures figures_of(const RunMetrics& metrics);

// The loss of the last row with at most that many tokens; none where there is no such row.
std::optional<LossFigure> loss_at(const RunMetrics& metrics, std::int64_t tokens);

// The mean of the middle two where the count is even; not a number where none of the values is one.
double median(std::vector<double> values);

}  // namespace llmtrain
