// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csignal>
#include <filesystem>

namespace llmtrain {

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
