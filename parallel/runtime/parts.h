// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "parallel/comm/communicator.h"
#include "parallel/runtime/nccl_interface.h"

namespace llmtrain {

// The runtime's parts that talk between processes are libraries beside it, so that it starts where MPI or NCCL is not
// installed. Whether they were built:
bool has_mpi_part();
bool has_nccl_part();

// Joins the MPI world of this process. Throws Error(missing_input) where the part, or its MPI, is not there.
std::unique_ptr<Communicator> join_mpi(double watchdog_seconds);
// Connects the ranks' GPUs. Throws Error(missing_input) where the part, or its NCCL, is not there. Blocks.
std::unique_ptr<Communicator> join_nccl(const NcclJoin& join);

}  // namespace llmtrain
