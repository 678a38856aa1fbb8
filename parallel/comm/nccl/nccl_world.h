// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "parallel/comm/communicator.h"

namespace llmtrain {

struct NcclOptions {
  double watchdog_seconds = 600;
  int device = 0;  // CUDA's index; each rank has its own device
  // Returns the cudaStream_t on which this rank computes; called for every operation, because it may change.
  std::function<void*()> compute_stream;
};

// Ranks that each have a GPU of their own. `host` connects the same ranks, also takes device memory (see
// stage_through_host()) and stays in use: it carries NCCL's ids, failures, and every operation that NCCL does not take:
// on host memory, for Purpose::control, barriers, and operations that the group was not created for (GroupUse).
//
// NCCL's operations run on separate streams, after the work that the compute stream holds when they start. wait() makes
// the compute stream wait, not the host. Groups are connected when they are created. For collectives groups of the same
// ranks and use share an NCCL communicator, which lasts until the end, and all of one use share a stream; for messages
// there is one of each per direction between neighbours, so that no order of sends and receives blocks. A thread
// detects operations that take longer than the watchdog's time, and aborts them when a rank fails. Sums are in NCCL's
// order: the same layout repeats its bits, but not in the order that Communicator guarantees.
std::unique_ptr<Communicator> join_nccl_world(std::shared_ptr<Communicator> host, const NcclOptions& options);

}  // namespace llmtrain
