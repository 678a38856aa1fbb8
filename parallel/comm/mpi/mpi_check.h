// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

namespace llmtrain {

// Throws Error(rank_lost) with MPI's message if `status` is an error; `what` names the failed action: "MPI cannot
// <what>".
void check_mpi(int status, const char* what);

}  // namespace llmtrain
