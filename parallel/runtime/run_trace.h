// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <filesystem>
#include <vector>

#include "parallel/device/moments.h"
#include "parallel/engine/trainer.h"

namespace llmtrain {

// When each rank began each instruction of its last steps, for the timeline of what really ran. The time of an
// instruction is what the rank's thread spent in it, or on a GPU its stream: what a started collective does while the
// rank goes on is not seen.
class RunTrace {
 public:
  // Watches the trainer's runner from now on; the trainer outlives this. All ranks build it together: their clocks
  // start with the last of them. Blocks.
  explicit RunTrace(Trainer& trainer);
  ~RunTrace();
  RunTrace(const RunTrace&) = delete;
  RunTrace& operator=(const RunTrace&) = delete;

  // After each step. On a GPU it waits for the step.
  void end_step();

  // The last steps of all ranks in the format of `plan --trace`, written by the first rank; all call it together.
  // Blocks. Throws Error(cannot_write).
  void write(const std::filesystem::path& file) const;

 private:
  struct Step {
    std::int64_t number = 0;
    std::vector<double> starts;  // seconds, of each instruction; then the end of the last
  };
  std::vector<double> packed(std::size_t width) const;

  Trainer& trainer_;
  Moments moments_;
  std::deque<Step> steps_;
};

}  // namespace llmtrain
