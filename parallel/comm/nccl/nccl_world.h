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

// Ranks that each have a GPU: the memory of operations is the device's. `host` connects the same ranks (by the mpi
// backend, or as threads of one process) and stays in use: it carries NCCL's ids, barriers and failures.
//
// Operations run on streams of their own, after what the compute stream holds when they start. wait() makes the compute
// stream wait, not the host; only barrier() blocks it. Messages go between neighbours in a group (position ± 1, around
// the end too), which all members must use: each direction has a stream, so that no order of sends and receives blocks.
// A thread looks for operations that take longer than the watchdog's time, and frees the devices when a rank fails.
// Sums are in NCCL's order: the same bits for the same layout, not the order that Communicator promises.
std::unique_ptr<Communicator> join_nccl_world(std::shared_ptr<Communicator> host, const NcclOptions& options);

}  // namespace llmtrain
