// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

namespace llmtrain {

// Throws Error(rank_lost) with MPI's words where `status` is an error; `what` was being done.
void check_mpi(int status, const char* what);

}  // namespace llmtrain
