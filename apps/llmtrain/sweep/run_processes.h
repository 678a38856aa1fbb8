// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>
#include <string>

#include "apps/llmtrain/sweep/sweep_runs.h"
#include "core/machine/machine_share.h"
#include "core/signals/stop_signals.h"

namespace llmtrain::app {

// Processes of `run`, each with a recipe of a sweep. They see the requests to stop that this process gets, and end when
// it does, however it ends.
class RunProcesses {
 public:
  // `stop` outlives this.
  RunProcesses(std::string recipe, StopSignals& stop);

  // Starts the run, whose words go to its log. Throws Error(cannot_write) where that cannot be written.
  void start(std::size_t run, const SweepRun& what, const MachineShare& share);
  std::size_t count() const { return runs_.size(); }

  struct End {
    std::size_t run = 0;
    int exit_code = 0;  // 128 + its signal where one has ended it, as shells have it
  };
  // Waits until one of them ends. At least one must be at work. Says, once, that they have been asked to stop.
  End wait();

 private:
  std::string recipe_;
  StopSignals& stop_;
  bool has_said_stop_ = false;
  std::map<pid_t, std::size_t> runs_;
};

}  // namespace llmtrain::app
