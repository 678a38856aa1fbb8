// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include "parallel/run/metrics_log.h"

namespace llmtrain {

// Progress output of a training run, on standard error: on a terminal one line that is redrawn, with a bar and the time
// left; otherwise (a pipe, CI, TERM=dumb) a plain line every few seconds. Quiet shows nothing.
class Progress {
 public:
  Progress(std::int64_t total_steps, std::int64_t steps_done, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const TrainingRow& row);
  // Prints a permanent line above the live one.
  void note(const std::string& line);
  // The same, also if quiet.
  void warn(const std::string& line);

 private:
  using Clock = std::chrono::steady_clock;
  std::string line(const TrainingRow& row) const;
  std::string bar(std::int64_t step) const;
  bool due(std::int64_t step);
  void clear();

  std::int64_t total_, first_;
  bool quiet_, live_, colour_;
  bool drawn_ = false;
  Clock::time_point start_ = Clock::now();
  Clock::time_point last_{};
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
