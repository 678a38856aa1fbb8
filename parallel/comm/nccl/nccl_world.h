// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "parallel/comm/communicator.h"

namespace llmtrain {

struct NcclOptions {
  double watchdog_seconds = 600;
  int device = 0;  // CUDA's number; one rank for each device
  // The cudaStream_t that this rank computes on, asked for at every operation; it may change.
  std::function<void*()> compute_stream;
};

// Ranks that each have a GPU of their own. `host` connects the same ranks, takes the memory of devices too (see
// stage_through_host()) and stays in use: it carries NCCL's ids and failures, and every operation that NCCL does not
// take: on the host's memory, for Purpose::control, barriers, and what the group was not made for (GroupUse).
//
// NCCL's operations run on streams of their own, after what the compute stream holds when they start. wait() makes the
// compute stream wait, not the host. Groups are connected when they are made: for collectives by one stream, for
// messages by one for each direction between neighbours, so that no order of sends and receives blocks.
// A thread looks for operations that take longer than the watchdog's time, and frees the devices when a rank fails.
// Sums are in NCCL's order: the same bits for the same layout, not the order that Communicator promises.
std::unique_ptr<Communicator> join_nccl_world(std::shared_ptr<Communicator> host, const NcclOptions& options);

}  // namespace llmtrain
