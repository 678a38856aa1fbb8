// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/error.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain {

// Runs the training on the ranks of `request.launch`: on this one alone, on threads, or as one process of an MPI world.
// A rank that throws takes the others down, and the message comes once: from here where ranks are threads, else from
// the rank that failed first, while the others return its code in silence. Throws Error(bad_recipe) when the launcher
// and MPI do not agree on the world, or the ranks' devices are not what the recipe asks for.
ExitCode run_ranks(const RunRequest& request);

}  // namespace llmtrain
