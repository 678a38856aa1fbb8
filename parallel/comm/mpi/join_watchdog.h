// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace llmtrain {

// Ends the process with ExitCode::rank_lost unless this object is destroyed within the watchdog's time. MPI waits for
// all ranks when it starts: for ever if one of them hangs before it has joined, and nothing else can interrupt it. The
// launcher then ends the other ranks. The first rank says why; the others do so, the second before the rest, only if
// that has not ended them soon after.
class JoinWatchdog {
 public:
  explicit JoinWatchdog(double watchdog_seconds);
  ~JoinWatchdog();
  JoinWatchdog(const JoinWatchdog&) = delete;
  JoinWatchdog& operator=(const JoinWatchdog&) = delete;

 private:
  void watch(double seconds);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_joined_ = false;
  std::thread thread_;
};

}  // namespace llmtrain
