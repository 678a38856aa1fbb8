// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "parallel/comm/communicator.h"

// What the runtime asks of the NCCL part, a shared library of its own (libllmtrain_nccl.so), which is loaded where
// ranks with GPUs talk through NCCL.
namespace llmtrain {

struct NcclJoin {
  std::shared_ptr<Communicator> host;  // connects the same ranks
  double watchdog_seconds = 600;
  int device = 0;                                 // of this rank, CUDA's number
  void* (*compute_stream)(int device) = nullptr;  // the cudaStream_t that the calling thread computes on
};

}  // namespace llmtrain

// The caller owns the result. Blocks until all ranks have called it. Throws Error.
extern "C" llmtrain::Communicator* llmtrain_join_nccl_world(const llmtrain::NcclJoin& join);
