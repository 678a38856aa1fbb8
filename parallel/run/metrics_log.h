// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/append_file.h"
#include "core/recipe/recipe.h"
#include "parallel/run/report/metrics_rows.h"

namespace llmtrain {

// The checksum of TensorBoard's records: CRC-32C (Castagnoli), RFC 3720 appendix B.4.
std::uint32_t crc32c(std::string_view bytes) noexcept;

struct TensorboardScalar {
  std::string_view tag;
  double value = 0;  // stored as a float
};

// Writes scalars for TensorBoard into one event file; each point is written immediately.
class TensorboardWriter {
 public:
  // Creates a new file events.out.tfevents.<seconds since 1970>.<host>.<process>.<number> in the folder. TensorBoard
  // then ignores points of step `first_step` and later in the folder's older files: a resumed run writes them again.
  // Throws Error(cannot_write), like write().
  TensorboardWriter(const std::filesystem::path& directory, std::int64_t first_step);

  void write(std::int64_t step, std::initializer_list<TensorboardScalar> scalars);

 private:
  void write_record(std::string_view data);

  AppendFile file_;
};

// Writes metrics.jsonl (training and evaluation rows, one object per line, written immediately; losses with 17
// significant digits, other numbers in their shortest exact form; null if not finite) and, if the recipe requests it, a
// TensorBoard event file and routing.jsonl beside it. Throws Error(cannot_write) on every failure to write.
class MetricsLog {
 public:
  // Removes from existing files what a resumed run writes again: rows of steps after `steps_done` (all rows if it is
  // 0), the evaluation after the last of these steps if it is repeated, and lines that are not rows, which a crash may
  // leave.
  MetricsLog(const std::filesystem::path& run_directory, const LogRecipe& recipe, std::int64_t steps_done,
             bool repeats_evaluation = false);

  void write(const TrainingRow& row);
  void write(const EvaluationRow& row);
  // How many tokens chose each expert of each layer in a step, by layer, empty for a dense one: a row of routing.jsonl
  // for each other one. Needs log.routing.
  void write_routing(std::int64_t step, const std::vector<std::vector<double>>& chosen);

 private:
  // For TensorBoard, as train/loss_terms/NAME.
  void write_terms(const std::string& prefix, std::int64_t step, const std::vector<LossTermRow>& terms);

  AppendFile file_;
  std::optional<AppendFile> routing_;
  std::optional<TensorboardWriter> tensorboard_;
};

}  // namespace llmtrain
