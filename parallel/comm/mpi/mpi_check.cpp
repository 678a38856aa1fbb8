// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/mpi_check.h"

#include <string>

#include "core/base/error.h"

namespace llmtrain {

void check_mpi(int status, const char* what) {
  if (status == MPI_SUCCESS) return;
  std::string text(MPI_MAX_ERROR_STRING, '\0');
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  text.resize(static_cast<std::size_t>(length));
  throw Error(ExitCode::rank_lost, std::string("MPI cannot ") + what + ": " + text +
                                       "; usual causes are ranks that start different operations, or a lost rank");
}

}  // namespace llmtrain
