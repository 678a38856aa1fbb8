// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/signals/stop_signals.h"

namespace llmtrain::app {

// The program that has started this process as one of several ranks.
struct Launcher {
  std::string name;  // "mpirun"
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  std::int64_t ranks_here = 1;  // on this node
  std::int64_t local_rank = 0;  // among them
  bool is_certain = true;       // its variables are found in the ranks that it has started alone
};

// Derived from the variables that Open MPI's mpirun, srun (PMIx, PMI2), other PMI launchers and torchrun set; none
// where this process was started by itself.
std::optional<Launcher> find_launcher();

// This program's own file, rather than argv[0], which need not be a path. Throws Error(internal_error).
std::string program_file();

// Starts this program, with the arguments that it was given, as `ranks` ranks on this node through mpirun, and returns
// their exit code. They see the requests of `stop`, and end when this process does, however it ends. Throws
// Error(missing_input) where there is no mpirun, Error(rank_lost) where a rank was killed, and Error(interrupted) after
// a second request, which says from which checkpoint, as the file `latest` names it, the run goes on.
int start_ranks(std::int64_t ranks, StopSignals& stop, const std::string& latest);

}  // namespace llmtrain::app
