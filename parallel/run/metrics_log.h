// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "core/recipe/recipe.h"
#include "parallel/run/append_file.h"
#include "parallel/run/tensorboard_writer.h"

namespace llmtrain {

// One training row: see docs for each field. `step` counts finished steps, so that row 100 and checkpoint 100 belong
// together.
struct TrainingRow {
  std::int64_t step = 0;
  double loss = 0;
  double learning_rate = 0;
  double gradient_norm = 0;
  std::int64_t tokens = 0;  // seen since the run began
  double step_seconds = 0;
  double tokens_per_second = 0;
  double mfu = 0;
  std::int64_t memory_bytes = 0;  // of the process, peak so far
  std::int64_t tensor_bytes = 0;  // of the first rank's tensors, peak so far
  std::int64_t skipped = 0;       // steps so far whose update was skipped
};

struct EvaluationRow {
  std::int64_t step = 0;
  double validation_loss = 0;
};

// metrics.jsonl (training and evaluation rows, one object a line, flushed at once; losses with 17 significant digits,
// the other numbers with as many as tell them apart; one that is not finite is null) and, if the recipe wants it, a
// TensorBoard event file beside it. Every failure to write is Error(cannot_write).
class MetricsLog {
 public:
  // Drops what a resumed run writes again from an existing file, at once: rows of steps after `steps_done` (all rows
  // when it is 0), and lines that are no rows, as a crash may leave them.
  MetricsLog(const std::filesystem::path& run_directory, const LogRecipe& recipe, std::int64_t steps_done);

  void write(const TrainingRow& row);
  void write(const EvaluationRow& row);

 private:
  AppendFile file_;
  std::optional<TensorboardWriter> tensorboard_;
};

}  // namespace llmtrain
