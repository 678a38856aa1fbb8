// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/runtime/runtime_interface.h"

namespace llmtrain::app {

// Loads the training runtime, which brings LibTorch in: libllmtrain_runtime.so beside the program or in its
// installation, else the file that LLMTRAIN_RUNTIME in the environment names. Throws Error(missing_input) that says
// what to install.
RuntimeInterface& load_runtime();

// Whether there is such a file; it need not load.
bool has_runtime();

}  // namespace llmtrain::app
