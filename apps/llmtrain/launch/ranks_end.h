// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "apps/llmtrain/launch/rank_watch.h"
#include "core/signals/stop_signals.h"

namespace llmtrain::app {

// What is known once mpirun and its ranks have ended.
struct RanksEnd {
  LauncherEnd launcher;
  std::string held_back;    // mpirun's words about the end of a rank
  bool has_spoken = false;  // something else was shown on standard error
};

// The exit code of the ranks. Throws Error(rank_lost) where a rank or mpirun was killed, or mpirun could not start or
// keep the ranks, and Error(interrupted) after a second request; these say from which checkpoint, as the file `latest`
// names it, the run goes on.
int exit_code_of(const RanksEnd& end, const StopSignals& stop, const std::string& latest);

}  // namespace llmtrain::app
