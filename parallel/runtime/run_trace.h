// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <vector>

#include "parallel/device/measurement.h"
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
  Trainer& trainer_;
  Moments moments_;
  std::size_t width_;  // numbers of a step
  // The last steps: the step's number, then the start of each instruction and the end of the last in seconds. All ranks
  // pad them to the same width, whatever their schedules are, because exchange() requires equal counts.
  std::deque<std::vector<double>> steps_;
};

}  // namespace llmtrain
