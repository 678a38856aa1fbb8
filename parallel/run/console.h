// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "core/base/progress_lines.h"
#include "parallel/run/progress_line.h"
#include "parallel/run/report/metrics_rows.h"

namespace llmtrain {

// Progress output of a training run, on standard error: on a terminal one line that is redrawn up to ten times a
// second, as wide as the terminal at most, with a bar and the time left; otherwise (a pipe, CI, TERM=dumb) a plain line
// at most every five seconds. The first step and the last are always shown. Quiet shows nothing.
class Progress {
 public:
  Progress(std::int64_t total_steps, std::int64_t steps_done, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const TrainingRow& row);
  // How far work between steps is, "evaluating": begin it, and show its share often. On a terminal the live line says
  // it; elsewhere a line every ten seconds, so that short work has none.
  void begin_work(const std::string& what);
  void show_work(double share);
  // Prints a permanent line above the live one.
  void note(const std::string& line);
  // The same, also if quiet.
  void warn(const std::string& line);

 private:
  using Clock = std::chrono::steady_clock;
  ProgressLine line(const TrainingRow& row) const;
  std::string drawn(const ProgressLine& shown) const;
  bool due(std::int64_t step);
  bool is_drawn() const { return live_ && !quiet_; }
  void clear();

  std::int64_t total_, first_;
  bool quiet_, live_, colour_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_{};
  std::optional<ProgressLines> work_;
};

// The file by which a run can be asked to stop as long as it exists.
class StopFile {
 public:
  explicit StopFile(std::filesystem::path file) : file_(std::move(file)) {}

  bool exists() const;
  void remove();  // so that the run can be continued

 private:
  std::filesystem::path file_;
};

}  // namespace llmtrain
