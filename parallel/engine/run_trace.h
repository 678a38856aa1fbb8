// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <vector>

#include "parallel/engine/trainer.h"

namespace llmtrain {

// When each rank began each instruction of its last steps, for the timeline of what really ran. The time of an
// instruction is what the rank's thread spent in it: what a started collective does while the rank goes on is not seen.
class RunTrace {
 public:
  // Watches the trainer's runner from now on; the trainer outlives this. All ranks build it together: their clocks
  // start with the last of them. Blocks.
  explicit RunTrace(Trainer& trainer);
  ~RunTrace();
  RunTrace(const RunTrace&) = delete;
  RunTrace& operator=(const RunTrace&) = delete;

  // After each step.
  void end_step();

  // The last steps of all ranks in the format of `plan --trace`, written by the first rank; all call it together.
  // Blocks. Throws Error(cannot_write).
  void write(const std::filesystem::path& file) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Step {
    std::int64_t number = 0;
    std::vector<double> starts;  // seconds, of each instruction; then the end of the last
  };
  double now() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  std::vector<double> packed(std::size_t width) const;

  Trainer& trainer_;
  Clock::time_point start_;
  std::vector<double> current_;
  std::deque<Step> steps_;
};

}  // namespace llmtrain
