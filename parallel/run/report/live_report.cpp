// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/report/live_report.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "parallel/run/report/prometheus.h"
#include "parallel/run/report/run_metrics.h"

namespace llmtrain {
namespace {

// Writing takes time of the first rank, for which all others wait: at most one percent of the run's.
constexpr std::chrono::seconds shortest_interval{5};
constexpr int least_share = 100;  // of the time between two writes to that of a write

}  // namespace

LiveReport::LiveReport(std::filesystem::path directory, const Recipe& recipe, std::optional<PlannedFigures> planned)
    : directory_(std::move(directory)), recipe_(recipe), planned_(std::move(planned)) {
  read_again();
}

LiveReport::~LiveReport() {
  std::error_code error;
  // Where there is none the directory is no longer the run's.
  if (is_finished_ || !std::filesystem::exists(directory_ / "report.html", error)) return;
  try {
    write(RunState::ended_early);
  } catch (const Error&) {
    // The error that ends the run is being reported already.
  }
}

void LiveReport::read_again() {
  progress_ = {};
  const std::filesystem::path file = directory_ / "metrics.jsonl";
  if (!std::filesystem::exists(file)) return;
  const RunMetrics metrics = read_metrics(file);
  for (const TrainingRow& row : metrics.training) progress_.add(row);
  for (const EvaluationRow& row : metrics.evaluations) progress_.add(row);
}

void LiveReport::add(const TrainingRow& row) {
  progress_.add(row);
  write_if_due();
}

void LiveReport::add(const EvaluationRow& row) {
  progress_.add(row);
  write_if_due();
}

void LiveReport::write_if_due() {
  const auto start = Clock::now();
  if (start < due_) return;
  write(RunState::running);
  const auto end = Clock::now();
  due_ = end + std::max<Clock::duration>(shortest_interval, least_share * (end - start));
}

void LiveReport::finish(RunState state) {
  is_finished_ = true;
  write(state);
}

void LiveReport::write(RunState state) {
  write_file_atomically(directory_ / "report.html", run_page(recipe_, progress_, planned_, state, further_));
  write_file_atomically(directory_ / "metrics.prom", prometheus_text(recipe_, progress_, state));
}

}  // namespace llmtrain
