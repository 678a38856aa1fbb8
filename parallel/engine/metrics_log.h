// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>

#include "core/recipe/recipe.h"

namespace llmtrain {

class TensorboardWriter;

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
  std::int64_t memory_bytes = 0;  // peak so far
  std::int64_t skipped = 0;       // steps so far whose update was skipped
};

struct EvaluationRow {
  std::int64_t step = 0;
  double validation_loss = 0;
};

// metrics.jsonl (training and evaluation rows, one object a line, flushed at once; losses with 17 significant digits;
// a number that is not finite is null) and, if the recipe wants it, a TensorBoard event file beside it.
class MetricsLog {
 public:
  // Rows of steps after `steps_done` are dropped from an existing file: a resumed run writes them again.
  MetricsLog(const std::filesystem::path& run_directory, const LogRecipe& recipe, std::int64_t steps_done);
  ~MetricsLog();

  void write(const TrainingRow& row);
  void write(const EvaluationRow& row);

 private:
  std::filesystem::path file_;
  std::ofstream stream_;
  std::unique_ptr<TensorboardWriter> tensorboard_;  // null when not wanted
};

}  // namespace llmtrain
