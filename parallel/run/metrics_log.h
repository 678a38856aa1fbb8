// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <optional>
#include <string_view>

#include "core/recipe/recipe.h"

namespace llmtrain {

// A file that is only appended to, created if it does not exist. Each piece is written immediately, without a buffer,
// so that other processes see it; a piece that cannot be written completely is removed again. Every failure, such as a
// full disk, throws Error(cannot_write) that names the file and the reason.
class AppendFile {
 public:
  explicit AppendFile(std::filesystem::path file);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view piece);

 private:
  [[noreturn]] void fail(std::string_view action, int reason) const;

  std::filesystem::path file_;
  int descriptor_ = -1;
};

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

// Means over the layers with experts and the micro-batches of a step.
struct RoutingRow {
  double balance_loss = 0;   // without its coefficient: 1 where routing is even
  double z_loss = 0;         // without its coefficient
  double dropped_share = 0;  // of the tokens' choices, those beyond an expert's capacity
  double expert_load = 0;    // the most tokens that choose an expert ÷ the mean over experts
};

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
  std::int64_t memory_bytes = 0;        // of the process, peak so far
  std::int64_t tensor_bytes = 0;        // of the first rank's tensors, peak so far
  std::int64_t skipped = 0;             // number of steps so far whose update was skipped
  std::optional<RoutingRow> routing{};  // of a model with experts
  // With FP8 gradients: the share of the step's that are beyond the format's range.
  std::optional<double> saturated_share{};
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
