// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/mpi_world.h"

// What run_ranks.cpp finds in the library.
extern "C" llmtrain::Communicator* llmtrain_join_mpi_world(double watchdog_seconds) {
  return llmtrain::join_mpi_world({.watchdog_seconds = watchdog_seconds}).release();
}
