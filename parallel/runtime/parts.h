// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "parallel/comm/communicator.h"
#include "parallel/runtime/nccl_interface.h"

namespace llmtrain {

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
