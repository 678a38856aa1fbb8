// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/report/run_metrics.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/json/json_memory.h"
#include "core/recipe/recipe_file.h"

namespace llmtrain {
namespace {

// Terms of the loss stay in their order.
using Row = nlohmann::ordered_json;

double number(const Row& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<double>() : std::numeric_limits<double>::quiet_NaN();
}

std::int64_t whole(const Row& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<std::int64_t>() : 0;
}

std::vector<LossTermRow> losses_of(const Row& row, const char* member) {
  std::vector<LossTermRow> terms;
  const auto found = row.find(member);
  if (found == row.end() || !found->is_object()) return terms;
  for (const auto& [name, value] : found->items()) terms.push_back({name, number(*found, name.c_str())});
  return terms;
}

std::vector<LossTermRow> terms_of(const Row& row) { return losses_of(row, "loss_terms"); }

TrainingRow training_row(const Row& row) {
  TrainingRow result;
  result.step = whole(row, "step");
  result.loss = number(row, "loss");
  result.learning_rate = number(row, "learning_rate");
  result.gradient_norm = number(row, "grad_norm");
  result.tokens = whole(row, "tokens");
  result.step_seconds = number(row, "step_seconds");
  result.tokens_per_second = number(row, "tokens_per_second");
  result.mfu = number(row, "mfu");
  result.memory_bytes = whole(row, "memory_bytes");
  result.tensor_bytes = whole(row, "tensor_bytes");
  result.skipped = whole(row, "skipped");
  result.terms = terms_of(row);
  if (row.contains("loss_scale")) result.loss_scale = number(row, "loss_scale");
  if (row.contains("resumed_after")) result.resumed_after = whole(row, "resumed_after");
  if (row.contains("saturated_share")) result.saturated_share = number(row, "saturated_share");
  if (row.contains("expert_load"))
    result.routing = RoutingRow{number(row, "balance_loss"), number(row, "z_loss"), number(row, "dropped_share"),
                                number(row, "expert_load"), number(row, "router_entropy")};
  return result;
}

}  // namespace

void require_trained_run(const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::is_regular_file(folder, error))
    throw Error(ExitCode::missing_input, folder.string() + ": is a file; give the directory of a run");
  for (const std::filesystem::path& file : {recipe_file(folder), metrics_file(folder)})
    if (!std::filesystem::exists(file, error))
      throw Error(ExitCode::missing_input, folder.string() + ": contains no " + file.filename().string() +
                                               "; give the directory of a run that has trained a step");
}

RunMetrics read_metrics(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  RunMetrics metrics;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const Row row = is_too_large_json(line) ? Row() : Row::parse(line, nullptr, false);
    // A run that is going on, or that was killed, may have left the last line incomplete.
    if (!row.is_object() || !row.contains("step")) continue;
    if (row.contains("validation_loss"))
      metrics.evaluations.push_back({whole(row, "step"), number(row, "validation_loss"), terms_of(row),
                                     losses_of(row, "validation_losses"), losses_of(row, "figures")});
    if (row.contains("loss")) metrics.training.push_back(training_row(row));
  }
  return metrics;
}

}  // namespace llmtrain
