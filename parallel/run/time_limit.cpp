// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/time_limit.h"

#include <algorithm>

#include "core/base/elapsed_time.h"

namespace llmtrain {
namespace {

// Times vary: the last save may be slower than the slowest so far, among other jobs' on the same file system.
constexpr double slower = 1.5;
// The next step is finished before the request is heard, and the one after that answers it.
constexpr double steps_to_stop = 2;
// From the last checkpoint to the end of all processes: MPI_Finalize, and mpirun or srun.
constexpr double seconds_to_end = 3;
// A first save may be as long as this, or a tenth of a short limit.
constexpr double longest_unknown_save = 60;

}  // namespace

TimeLimit::TimeLimit(std::optional<Clock::time_point> deadline, Clock::time_point now)
    : deadline_(deadline), whole_(deadline ? seconds_between(now, *deadline) : 0) {}

bool TimeLimit::must_stop(double longest_step, std::optional<double> longest_save, Clock::time_point now) const {
  if (!deadline_) return false;
  const double save = longest_save.value_or(std::clamp(whole_ / 10, 0.0, longest_unknown_save));
  return seconds_between(now, *deadline_) < steps_to_stop * slower * longest_step + slower * save + seconds_to_end;
}

}  // namespace llmtrain
