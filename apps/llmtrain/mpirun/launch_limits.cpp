// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/mpirun/launch_limits.h"

#include <sys/resource.h>

#include <string>

#include "core/base/error.h"

namespace llmtrain::app {
namespace {

// Throws Error(cannot_write) where a limit is lower than mpirun needs.
void require_limit(int resource, rlim_t least, const std::string& what, const std::string& command) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur >= least) return;
  throw Error(ExitCode::cannot_write, "the limit of " + what + " is " + std::to_string(limit.rlim_cur) + " here (" +
                                          command + "), too low for mpirun: raise it to " + std::to_string(least) +
                                          " or more, or set launch.backend to \"local\"");
}

}  // namespace

void require_limits(std::int64_t ranks) {
  constexpr rlim_t shared_memory = 64 << 20, files = 48, files_per_rank = 8;
  require_limit(RLIMIT_FSIZE, shared_memory, "bytes in a file", "ulimit -f");
  require_limit(RLIMIT_NOFILE, files + files_per_rank * static_cast<rlim_t>(ranks), "open files", "ulimit -n");
}

}  // namespace llmtrain::app
