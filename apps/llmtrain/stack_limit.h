// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llmtrain::app {

// LibTorch, oneDNN and mpirun end with a segmentation fault where a stack cannot grow to what they need. Raises this
// process's limit to Linux's usual one, for its first thread, for those that it starts from now on and for its
// children. Throws Error(cannot_write) where that is forbidden (a hard limit) and the limit is too low.
void raise_stack_limit();

}  // namespace llmtrain::app
