// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "parallel/comm/communicator.h"

namespace llmtrain {

struct MpiOptions {
  double watchdog_seconds = 600;
};

// Joins the MPI world that this process was started in, and starts MPI where nobody has. Whoever waits moves all
// operations on; while nobody does, a thread of its own looks after them, so one thread at a time is in MPI: it asks
// for MPI_THREAD_SERIALIZED and nothing more. Waiting yields the core, and sleeps when it lasts.
//
// The destructor ends MPI if this started it, which waits for all ranks; after a failure it does not: the process
// must then exit with the failure's code, and mpirun ends those that hang. One at a time; the thread that makes it
// should end it. Throws Error(internal_error) where MPI cannot start.
std::unique_ptr<Communicator> join_mpi_world(const MpiOptions& options = {});

}  // namespace llmtrain
