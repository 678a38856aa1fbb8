// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/engine/trainer.h"
#include "parallel/run/run_directory.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain {

// Logs what is about to run: model and parameters, batch and steps, memory of the weights and their states, device,
// data, ranks and layout, the plan's step time and memory, and the run directory.
void show_start_screen(const RunRequest& request, Trainer& trainer, const RunDirectory& directory);

}  // namespace llmtrain
