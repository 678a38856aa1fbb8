// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "parallel/comm/communicator.h"

// The interface between the runtime and its NCCL part, a separate shared library (libllmtrain_nccl.so) that is loaded
// if ranks with GPUs communicate through NCCL.
namespace llmtrain {

struct NcclJoin {
  std::shared_ptr<Communicator> host;  // connects the same ranks
  double watchdog_seconds = 600;
  int device = 0;                                 // CUDA's index of this rank's GPU
  void* (*compute_stream)(int device) = nullptr;  // returns the cudaStream_t on which the calling thread computes
};

}  // namespace llmtrain

// The caller owns the result. Blocks until all ranks have called it. Throws Error.
extern "C" llmtrain::Communicator* llmtrain_join_nccl_world(const llmtrain::NcclJoin& join);
