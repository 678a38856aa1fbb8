// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

namespace llmtrain::app {

// How a launcher has ended.
struct LauncherEnd {
  int status = 0;  // as waitpid() gives it
  // Those of its ranks that ended first, ascending: one, or several that ended at the same time. Empty where none has
  // been seen to end, as on systems without pidfd_open() (Linux before 5.3).
  std::vector<std::int64_t> first_ranks{};
};

// Ranks are killed, not asked, when their launcher ends. The kernel then takes back their memory, pinned or a GPU's
// too, which takes it seconds where that is hundreds of GiB; whoever starts the next run at once needs it. A process
// that waits for a disk or a file system that does not answer cannot even be killed: nobody waits for it longer.
inline constexpr std::chrono::seconds time_for_killed_ranks{10};

// Waits until the launcher, a child of this process on whose machine all of its `ranks` ranks are, has ended, and then
// until those ranks have, for at most `most_time_after`; calls `look` all the time, at least twenty times a second. A
// launcher says how a rank was killed, but not which one: it then ends the others, so the first one to end is seen
// here.
LauncherEnd wait_for_launcher(pid_t launcher, std::int64_t ranks, const std::function<void()>& look,
                              std::chrono::milliseconds most_time_after = time_for_killed_ranks);

}  // namespace llmtrain::app
