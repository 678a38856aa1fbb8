// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

namespace llmtrain::app {

// From now on the kernel kills this process (SIGKILL) when its parent ends, however that ends. Ends the process at once
// if `parent` is not its parent any more. Holds across exec.
void end_with_parent(pid_t parent);

// The same in a rank, for the launcher that has started it.
void end_with_launcher();

// Names the launcher in the environment of the ranks, so that they notice if it has ended before they began. The second
// call, between fork and exec, allocates nothing.
void prepare_launcher_name();
void write_launcher_name(pid_t launcher) noexcept;

}  // namespace llmtrain::app
