// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/mpi_world.h"

// The entry point that parts.cpp looks up by name. A raw pointer, because C linkage cannot return a unique_ptr.
extern "C" llmtrain::Communicator* llmtrain_join_mpi_world(double watchdog_seconds) {
  return llmtrain::join_mpi_world({.watchdog_seconds = watchdog_seconds}).release();
}
