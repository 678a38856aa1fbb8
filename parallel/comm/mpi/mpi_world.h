// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "parallel/comm/communicator.h"

namespace llmtrain {

struct MpiOptions {
  double watchdog_seconds = 600;
};

// Joins the MPI world in which this process was started, and initialises MPI if necessary. A waiting thread advances
// all operations; while none waits, a thread of the communicator does. One thread at a time calls MPI, so it requires
// only MPI_THREAD_SERIALIZED. Waiting first yields the core and later sleeps.
//
// The destructor finalises MPI if this initialised it, which waits for all ranks, but not after a failure: the process
// must then exit with the failure's code, and mpirun ends the ranks that hang. At most one may exist at a time; create
// and destroy it on the same thread. Throws Error(internal_error) if MPI cannot start.
std::unique_ptr<Communicator> join_mpi_world(const MpiOptions& options = {});

}  // namespace llmtrain
