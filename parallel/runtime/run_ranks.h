// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/error.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain {

// Runs the training on the ranks of `request.launch`: on this rank alone, on threads, or as one process of an MPI
// world. A rank that throws ends the others, and the message appears once: thrown from here if ranks are threads, else
// printed by the rank that failed first, while the others return its code silently. Throws Error(bad_recipe) if
// launcher and MPI disagree on the world, or if the ranks' devices are not what the recipe requests.
ExitCode run_ranks(const RunRequest& request);

}  // namespace llmtrain
