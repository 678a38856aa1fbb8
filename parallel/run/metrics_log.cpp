// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/metrics_log.h"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/base/file.h"
#include "core/base/log.h"

namespace llmtrain {
namespace {

// The first step whose rows this process writes. A new run starts at 0, the evaluation before its first step.
std::int64_t first_step(std::int64_t steps_done) { return steps_done == 0 ? 0 : steps_done + 1; }

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

// 17 digits identify a double exactly, so that tests can compare losses bit by bit.
std::string exact_number(double value) { return std::isfinite(value) ? fmt::format("{:.17g}", value) : "null"; }

std::optional<std::int64_t> step_of(std::string_view line) {
  const auto row = nlohmann::json::parse(line, nullptr, false);
  if (!row.is_object()) return std::nullopt;
  const auto step = row.find("step");
  if (step == row.end() || !step->is_number_integer()) return std::nullopt;
  return step->get<std::int64_t>();
}

// The rows of steps before `first`; `unreadable` counts lines that are not rows, such as an incomplete last line.
std::string rows_before(std::string_view text, std::int64_t first, int& unreadable) {
  std::string kept;
  for (std::size_t end = 0; !text.empty(); text.remove_prefix(end)) {
    const std::size_t newline = text.find('\n');
    const bool torn = newline == std::string_view::npos;
    end = torn ? text.size() : newline + 1;
    const auto step = torn ? std::nullopt : step_of(text.substr(0, newline));
    if (!step) ++unreadable;
    if (step && *step < first) kept += text.substr(0, end);
  }
  return kept;
}

std::filesystem::path cut_to(const std::filesystem::path& file, std::int64_t first) {
  if (!std::filesystem::exists(file)) return file;
  const std::string text = read_file(file);
  int unreadable = 0;
  const std::string kept = rows_before(text, first, unreadable);
  if (unreadable > 0)
    log().warn("{}: dropped {} that a crash left incomplete", file.string(),
               unreadable == 1 ? "a row" : fmt::format("{} rows", unreadable));
  // Replaced as a whole, so that a crash here cannot lose the rows that are kept.
  if (kept.size() != text.size()) write_file_atomically(file, kept);
  return file;
}

}  // namespace

MetricsLog::MetricsLog(const std::filesystem::path& run_directory, const LogRecipe& recipe, std::int64_t steps_done)
    : file_(cut_to(run_directory / "metrics.jsonl", first_step(steps_done))) {
  if (recipe.tensorboard) tensorboard_.emplace(run_directory, first_step(steps_done));
}

void MetricsLog::write(const TrainingRow& row) {
  file_.append(fmt::format(R"({{"step":{},"loss":{},"learning_rate":{},"grad_norm":{},"tokens":{},"step_seconds":{},)"
                           R"("tokens_per_second":{},"mfu":{},"memory_bytes":{},"tensor_bytes":{},"skipped":{}}})"
                           "\n",
                           row.step, exact_number(row.loss), number(row.learning_rate), number(row.gradient_norm),
                           row.tokens, number(row.step_seconds), number(row.tokens_per_second), number(row.mfu),
                           row.memory_bytes, row.tensor_bytes, row.skipped));
  if (!tensorboard_) return;
  tensorboard_->write(row.step, {{"train/loss", row.loss},
                                 {"train/learning_rate", row.learning_rate},
                                 {"train/grad_norm", row.gradient_norm},
                                 {"train/tokens_per_second", row.tokens_per_second},
                                 {"train/mfu", row.mfu},
                                 {"train/memory_bytes", static_cast<double>(row.memory_bytes)},
                                 {"train/tensor_bytes", static_cast<double>(row.tensor_bytes)}});
}

void MetricsLog::write(const EvaluationRow& row) {
  file_.append(fmt::format("{{\"step\":{},\"validation_loss\":{}}}\n", row.step, exact_number(row.validation_loss)));
  if (tensorboard_) tensorboard_->write(row.step, {{"validation/loss", row.validation_loss}});
}

}  // namespace llmtrain
