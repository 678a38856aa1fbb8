// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/join_watchdog.h"

#include <algorithm>
#include <cstdlib>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/units.h"
#include "parallel/comm/backend.h"

namespace llmtrain {
namespace {

// In which the end of a rank that speaks reaches the others, through the launcher.
constexpr double head_start_seconds = 3;

// The first rank speaks, or the second if it is the first that hangs. Before MPI has started, only the launcher knows
// the rank.
double head_start_of_others() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (const char* rank = std::getenv(name)) return head_start_seconds * std::clamp(std::atoi(rank), 0, 2);
  return 0;
}

}  // namespace

JoinWatchdog::JoinWatchdog(double watchdog_seconds) : thread_([this, watchdog_seconds] { watch(watchdog_seconds); }) {}

JoinWatchdog::~JoinWatchdog() {
  {
    const std::lock_guard lock(mutex_);
    has_joined_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void JoinWatchdog::watch(double seconds) {
  Deadline deadline(seconds + head_start_of_others());
  std::unique_lock lock(mutex_);
  while (!deadline.has_passed())
    if (changed_.wait_for(lock, deadline.left(), [this] { return has_joined_; })) return;
  log().error(
      "MPI did not start within {}: a rank hangs, or is lost, before it has joined the others; see the launcher's "
      "messages, or raise launch.watchdog_seconds if starting only takes long",
      format_duration(seconds));
  log().flush();
  // Not exit(): MPI's own thread is in the middle of its start.
  std::_Exit(static_cast<int>(ExitCode::rank_lost));
}

}  // namespace llmtrain
