// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include "core/base/error.h"
#include "parallel/comm/communicator.h"
#include "parallel/engine/trainer.h"
#include "parallel/run/run_directory.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain {

// `llmtrain run` on this rank, which computes on `device`: opens or creates the run directory, resumes or starts,
// trains to the last step, evaluates, saves, and reports progress and the plan's figures beside the measured ones.
// Returns done, or stopped if it was asked to stop and the checkpoint is saved. Throws Error like RunDirectory,
// Trainer, MetricsLog and CheckpointSaver. Blocks.
//
// Collective over the communicator's world; the first rank writes and prints, every other rank writes a log of its own.
// Throws Error(bad_recipe) before anything is built if the ranks were given different recipes.
ExitCode run_training(const RunRequest& request, const c10::Device& device, Communicator& communicator);

// Logs what is about to run: model and parameters, batch and steps, memory of the weights and their states, device,
// data, ranks and layout, the plan's step time and memory, and the run directory.
void show_start_screen(const RunRequest& request, Trainer& trainer, const RunDirectory& directory);

// Logs the keys whose values differ from those with which the run was trained so far, one per line, and where the
// learning rate of its next step differs by that.
void show_changes(const RunDirectory& directory, const Trainer& trainer);

// Warns of the keys by which the data, or their order, are others than those of the run whose checkpoint this is and
// from which `trainer` goes on: its position counts samples of the run's own data now.
void warn_of_other_data(const CheckpointReader& checkpoint, const Trainer& trainer);

// Logs why the run has no step to do.
void show_nothing_to_do(const Trainer& trainer);

}  // namespace llmtrain
