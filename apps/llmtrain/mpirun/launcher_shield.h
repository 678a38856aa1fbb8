// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>

#include "core/signals/stop_signals.h"

namespace llmtrain::app {

// Open MPI's mpirun kills its ranks a second after a SIGTERM, SIGINT or SIGHUP, which is too short for a checkpoint,
// and ends itself where a reader of its output has gone. So it never receives these signals: they stay pending, and
// this process, which started it, takes them as requests to stop.

// Between fork and exec: blocks them, and only them, in this process and in what it becomes. mpirun unblocks all
// signals in its ranks.
void shield_from_signals() noexcept;

// What the process that has started a shielded launcher does instead of it, each time that look() is called.
class LauncherShield {
 public:
  // Neither is owned.
  LauncherShield(pid_t launcher, const StopSignals& stop) : launcher_(launcher), stop_(stop) {}

  // Passes on what has been sent to the launcher, as a SIGUSR1 to this process. Two seconds after somebody insists,
  // kills the ranks, whereupon the launcher tidies up and ends, and if it has not ended five seconds later the launcher
  // too.
  void look();

 private:
  void pass_on() const;
  void end_all();

  pid_t launcher_;
  const StopSignals& stop_;
  std::optional<std::chrono::steady_clock::time_point> ending_since_{};
};

}  // namespace llmtrain::app
