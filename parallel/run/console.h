// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <string>

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

// Records requests to stop: SIGUSR1 (which Slurm can send before the time limit), SIGTERM, SIGINT, or the file
// `stop_file`. The training loop checks it once per step. A second SIGINT ends the process immediately. At most one
// object may exist at a time; its destructor restores the previous handlers.
class StopSignal {
 public:
  explicit StopSignal(std::filesystem::path stop_file);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const;
  void acknowledge();  // removes the file, so that the run can be continued

 private:
  static constexpr std::array signals{SIGUSR1, SIGTERM, SIGINT};

  std::filesystem::path stop_file_;
  std::array<struct sigaction, signals.size()> former_{};
};

}  // namespace llmtrain
