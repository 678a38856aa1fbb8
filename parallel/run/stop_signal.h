// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <csignal>
#include <filesystem>

namespace llmtrain {

// Notes a request to stop: SIGUSR1 (what Slurm is told to send before its time is up), SIGTERM, SIGINT, or a file of
// this name. The training loop asks once a step. A second SIGINT ends the process at once. One object at a time; its
// end puts the former handlers back.
class StopSignal {
 public:
  explicit StopSignal(std::filesystem::path stop_file);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool requested() const;
  void acknowledge();  // removes the file, so that the run can be taken up again

 private:
  static constexpr std::array signals{SIGUSR1, SIGTERM, SIGINT};

  std::filesystem::path stop_file_;
  std::array<struct sigaction, signals.size()> former_{};
};

}  // namespace llmtrain
