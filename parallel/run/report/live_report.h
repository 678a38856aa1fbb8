// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/recipe/recipe.h"
#include "parallel/run/report/run_page.h"

namespace llmtrain {

// Keeps a run's page, report.html, and its metrics.prom up to date while it trains: both are replaced whole, at most
// every five seconds and rarely enough to take at most one hundredth of the run's time, and at its end. Throws
// Error(cannot_write).
class LiveReport {
 public:
  // Starts with the rows that the directory's metrics.jsonl holds, if any. The recipe outlives this.
  LiveReport(std::filesystem::path directory, const Recipe& recipe, std::optional<PlannedFigures> planned);
  // A run that an error ends before finish() leaves a page that says so.
  ~LiveReport();
  LiveReport(const LiveReport&) = delete;
  LiveReport& operator=(const LiveReport&) = delete;

  void add(const TrainingRow& row);
  void add(const EvaluationRow& row);
  // After metrics.jsonl has lost rows.
  void read_again();
  // Stays on the page from the next write on.
  void add_section(PageSection section) { further_ = std::move(section); }
  void finish(RunState state);

 private:
  using Clock = std::chrono::steady_clock;
  void write_if_due();
  void write(RunState state);

  std::filesystem::path directory_;
  const Recipe& recipe_;
  std::optional<PlannedFigures> planned_;
  RunProgress progress_;
  PageSection further_;
  Clock::time_point due_{};
  bool is_finished_ = false;
};

}  // namespace llmtrain
