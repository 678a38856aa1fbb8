// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include "core/base/error.h"
#include "parallel/comm/communicator.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain {

// `llmtrain run` on this rank, which computes on `device`: takes or makes the run directory, resumes or starts, trains
// to the last step, evaluates, saves, and shows all of it, with what the plan said beside what was measured. Returns
// done, or stopped when a signal asked for it and the checkpoint is saved. Throws Error as RunDirectory, Trainer,
// MetricsLog and CheckpointSaver do.
//
// All ranks of the communicator's world call it; the first one writes and shows, the others leave a log each. Throws
// Error(bad_recipe) before anything is built when they were given different recipes.
ExitCode run_training(const RunRequest& request, const c10::Device& device, Communicator& communicator);

}  // namespace llmtrain
