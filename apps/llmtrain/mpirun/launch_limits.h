// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::app {

// Where mpirun cannot make its files of shared memory or its pipes, it and its ranks wait for each other for ever, or
// end without a word. Throws Error(cannot_write) where a limit of this process is lower than `ranks` ranks on this
// machine need.
void require_limits(std::int64_t ranks);

}  // namespace llmtrain::app
