// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "core/recipe/recipe.h"
#include "parallel/run/append_file.h"
#include "parallel/run/tensorboard_writer.h"

namespace llmtrain {

// One training row. `step` counts completed steps, so that row 100 and checkpoint 100 belong together.
struct TrainingRow {
  std::int64_t step = 0;
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
  std::int64_t tokens = 0;  // trained on since the start of the run
  double step_seconds = 0;
  double tokens_per_second = 0;
  double mfu = 0;
  std::int64_t memory_bytes = 0;  // of the process, peak so far
  std::int64_t tensor_bytes = 0;  // of the first rank's tensors, peak so far
  std::int64_t skipped = 0;       // number of steps so far whose update was skipped
};

struct EvaluationRow {
  std::int64_t step = 0;
  double validation_loss = 0;
};

// Writes metrics.jsonl (training and evaluation rows, one object per line, written immediately; losses with 17
// significant digits, other numbers in their shortest exact form; null if not finite) and, if the recipe requests it, a
// TensorBoard event file beside it. Throws Error(cannot_write) on every failure to write.
class MetricsLog {
 public:
  // Removes from an existing file what a resumed run writes again: rows of steps after `steps_done` (all rows if it is
  // 0), and lines that are not rows, which a crash may leave.
  MetricsLog(const std::filesystem::path& run_directory, const LogRecipe& recipe, std::int64_t steps_done);

  void write(const TrainingRow& row);
  void write(const EvaluationRow& row);

 private:
  AppendFile file_;
  std::optional<TensorboardWriter> tensorboard_;
};

}  // namespace llmtrain
