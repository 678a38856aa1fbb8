// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <vector>

namespace llmtrain::app {

// The children of a process, of all of its threads; none where there is no such process.
std::vector<pid_t> children_of(pid_t process);

}  // namespace llmtrain::app
