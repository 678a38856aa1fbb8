// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/error.h"
#include "parallel/comm/communicator.h"

namespace llmtrain {

struct LocalOptions {
  double watchdog_seconds = 600;
  // Emulates a network if either is not 0: each hop takes `link_delay_microseconds`, and what one rank sends leaves it
  // at `link_bytes_per_second` (0: immediately), one transfer after the other. A message leaves when it is sent; a
  // collective when all members have started it, and takes the ring algorithm's hops and bytes.
  std::int64_t link_delay_microseconds = 0;
  double link_bytes_per_second = 0;
  // What run() does with a rank that has not ended `patience_seconds` after another one has failed, because it computes
  // or reads without end: it calls this with the failure, naming those ranks. Threads cannot be ended alone, so this
  // must end the process. Without it run() waits for them.
  std::function<void(const Error&)> abandon;
  double patience_seconds = 5;
};

class LocalShared;

// Ranks as threads of one process, which read and write each other's memory. Whoever waits does the work, piece by
// piece, also for ranks that are not waiting yet; waiting threads sleep. The world must outlive its communicators.
class LocalWorld {
 public:
  explicit LocalWorld(int ranks, const LocalOptions& options = {});
  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;

  // Call once per rank; used by that rank's thread.
  std::unique_ptr<Communicator> communicator(int rank);

  // Runs `work` as every rank, each on its own thread, and returns when all have ended. If a rank throws, the
  // operations of the others throw its message too. Throws what the rank that failed first threw.
  void run(const std::function<void(Communicator&)>& work);

 private:
  LocalOptions options_;
  std::shared_ptr<LocalShared> shared_;
};

}  // namespace llmtrain
