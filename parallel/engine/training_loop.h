// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/error.h"
#include "parallel/engine/runtime_interface.h"

namespace llmtrain {

// `llmtrain run` on this rank: takes or makes the run directory, resumes or starts, trains to the last step, evaluates,
// saves, and shows all of it, with what the plan said beside what was measured. Returns done, or stopped when a signal
// asked for it and the checkpoint is saved. Throws Error as RunDirectory, Trainer, MetricsLog and CheckpointSaver do.
ExitCode run_training(const RunRequest& request);

}  // namespace llmtrain
