// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <filesystem>
#include <vector>

#include "parallel/device/moments.h"
#include "parallel/engine/trainer.h"

namespace llmtrain {

// Records when each rank started each instruction of its last steps, for the timeline of what really ran. An
// instruction's time is what the rank's thread, or on a GPU its stream, spent in it: collectives that proceed while the
// rank continues are not visible.
class RunTrace {
 public:
  // Observes the trainer's runner from now on; the trainer must outlive this. Collective; blocks: the ranks' clocks
  // start together.
  explicit RunTrace(Trainer& trainer);
  ~RunTrace();
  RunTrace(const RunTrace&) = delete;
  RunTrace& operator=(const RunTrace&) = delete;

  // Call after each step. On a GPU it blocks until the step is complete.
  void end_step();

  // Writes the last steps of all ranks in the format of `plan --trace`; the first rank writes the file. Collective;
  // blocks. Throws Error(cannot_write).
  void write(const std::filesystem::path& file) const;

 private:
  struct Step {
    std::int64_t number = 0;
    std::vector<double> starts;  // seconds: the start of each instruction, then the end of the last
  };
  std::vector<double> packed(std::size_t width) const;

  Trainer& trainer_;
  Moments moments_;
  std::deque<Step> steps_;
};

}  // namespace llmtrain
