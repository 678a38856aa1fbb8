// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/report/run_figures.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace llmtrain {
namespace {

void keep_best(std::optional<LossFigure>& best, std::int64_t step, double loss) {
  if (std::isfinite(loss) && (!best || loss < best->loss)) best = LossFigure{step, loss};
}

double median_of(const RunMetrics& metrics, double TrainingRow::*column) {
  std::vector<double> values;
  for (const TrainingRow& row : metrics.training) values.push_back(row.*column);
  return median(std::move(values));
}

}  // namespace

double median(std::vector<double> values) {
  // read_metrics() has NaN for a column that a row lacks.
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

RunFigures figures_of(const RunMetrics& metrics) {
  RunFigures figures;
  for (const TrainingRow& row : metrics.training) {
    keep_best(figures.best, row.step, row.loss);
    if (!std::isnan(row.step_seconds)) figures.seconds += row.step_seconds;
    figures.memory_bytes = std::max(figures.memory_bytes, row.memory_bytes);
    figures.tensor_bytes = std::max(figures.tensor_bytes, row.tensor_bytes);
  }
  for (const EvaluationRow& row : metrics.evaluations)
    keep_best(figures.best_validation, row.step, row.validation_loss);
  if (!metrics.evaluations.empty())
    figures.last_validation = {metrics.evaluations.back().step, metrics.evaluations.back().validation_loss};
  if (!metrics.training.empty()) {
    const TrainingRow& last = metrics.training.back();
    figures.steps = last.step;
    figures.tokens = last.tokens;
    figures.skipped = last.skipped;
    figures.last = {last.step, last.loss};
  }
  figures.tokens_per_second = median_of(metrics, &TrainingRow::tokens_per_second);
  figures.step_seconds = median_of(metrics, &TrainingRow::step_seconds);
  figures.mfu = median_of(metrics, &TrainingRow::mfu);
  return figures;
}

std::optional<LossFigure> loss_at(const RunMetrics& metrics, std::int64_t tokens) {
  std::optional<LossFigure> found;
  for (const TrainingRow& row : metrics.training)
    if (row.tokens <= tokens) found = LossFigure{row.step, row.loss};
  return found;
}

}  // namespace llmtrain
