// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <memory>

#include "core/base/error.h"
#include "core/base/log.h"
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

// The log of a rank other than the first: `log/rank-0000N.log` in the run directory, nothing on the console.
class RankLog {
 public:
  // Throws Error(cannot_write).
  RankLog(const RunRequest& request, int rank);
  spdlog::logger& get() const { return *logger_; }

 private:
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace llmtrain
