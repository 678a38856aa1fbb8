// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/page/html.h"
#include "parallel/device/measurement.h"
#include "parallel/engine/trainer.h"

namespace llmtrain {

// Records when each rank started each instruction of its last steps, for the timeline of what really ran. An
// instruction's time is what the rank's thread, or on a GPU its stream, spent in it: collectives that proceed while the
// rank continues are not visible.
class RunTrace {
 public:
  // Observes the trainer's runner from now on; the trainer, whose layout it is, must outlive this. Collective; blocks:
  // the ranks' clocks start together.
  RunTrace(Trainer& trainer, std::shared_ptr<const Layout> layout);
  ~RunTrace();
  RunTrace(const RunTrace&) = delete;
  RunTrace& operator=(const RunTrace&) = delete;

  // Call after each step. On a GPU it blocks until the step is complete.
  void end_step();

  // Writes the last steps of all ranks in the format of `plan --trace`; the first rank writes the file. Collective;
  // blocks. Throws Error(cannot_write). Returns on the first rank the last step for a page's script
  // (measured_step_section()), elsewhere nothing.
  Html write(const std::filesystem::path& file) const;

 private:
  // The layout of a step that is kept.
  std::shared_ptr<const Layout> layout_of(const std::vector<double>& step) const;
  Html last_step(const std::vector<double>& all, std::size_t each, std::size_t lanes) const;

  Trainer& trainer_;
  std::shared_ptr<const Layout> layout_;
  Moments moments_;
  std::size_t width_;  // numbers of a step
  // The last steps: the step's number, then the start of each instruction and the end of the last in seconds. All ranks
  // pad them to the same width, whatever their schedules are, because exchange() requires equal counts.
  std::deque<std::vector<double>> steps_;
};

}  // namespace llmtrain
