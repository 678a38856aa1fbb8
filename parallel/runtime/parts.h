// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "parallel/comm/communicator.h"

namespace llmtrain {

// Passed to the part for NCCL (libllmtrain_nccl.so).
struct NcclJoin {
  std::shared_ptr<Communicator> host;  // connects the same ranks
  double watchdog_seconds = 600;
  int device = 0;                                 // CUDA's index of this rank's GPU
  void* (*compute_stream)(int device) = nullptr;  // returns the cudaStream_t on which the calling thread computes
};

// The runtime's parts for communication between processes are separate libraries beside it, so that it also starts
// where MPI or NCCL is not installed. These report whether a part was built:
bool has_mpi_part();
bool has_nccl_part();

// Joins the MPI world of this process. Throws Error(missing_input) if the part or its MPI library cannot be loaded.
// Blocks.
std::unique_ptr<Communicator> join_mpi(double watchdog_seconds);
// Connects the ranks' GPUs. Throws Error(missing_input) if the part or its NCCL library cannot be loaded. Blocks.
std::unique_ptr<Communicator> join_nccl(const NcclJoin& join);

}  // namespace llmtrain

// The entry point of the part for NCCL. The caller owns the result. Blocks until all ranks have called it. Throws
// Error.
extern "C" llmtrain::Communicator* llmtrain_join_nccl_world(const llmtrain::NcclJoin& join);
