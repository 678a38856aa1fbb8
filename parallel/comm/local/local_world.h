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
  // Emulates a network if any of the first three is not 0: each hop takes `delay_seconds`, and what one rank sends
  // leaves it at `bytes_per_second` (0: immediately) after `message_seconds` for each message, one transfer after the
  // other. A message leaves when it is sent; a collective when all members have started it, and takes the ring
  // algorithm's hops and bytes, each hop being a message, an all-to-all one message to each rank to which it has
  // something to send. Between ranks of one node, of `node_ranks` consecutive ones, everything is `node_speedup` times
  // as fast.
  struct Links {
    double delay_seconds = 0;
    double bytes_per_second = 0;
    double message_seconds = 0;
    int node_ranks = 1;
    double node_speedup = 1;
  };
  Links links;
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
