// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "core/checkpoint/checkpoint.h"
#include "parallel/engine/model_state.h"
#include "parallel/engine/trainer.h"
#include "parallel/run/checkpoint_saver.h"
#include "tests/parallel/engine/lone_trainer.h"

namespace llmtrain::test {

// Writes the trainer's checkpoint; all ranks of the world call it, each with its own trainer.
inline void save(Trainer& trainer, const std::filesystem::path& checkpoints) {
  CheckpointRecipe recipe;
  recipe.async = false;
  recipe.keep = 0;
  CheckpointSaver saver(checkpoints, recipe, trainer.model().groups().communicator());
  const StateSlices state = state_slices(trainer.model());
  saver.write(trainer.state(), state.slices, state.memory);
}

// A new trainer that goes on from the checkpoint, in `checkpoints`, of one that trained this many steps (below 10).
inline std::unique_ptr<LoneTrainer> resumed_after(int steps, const Recipe& recipe,
                                                  const std::filesystem::path& checkpoints) {
  {
    LoneTrainer first(recipe);
    for (int i = 0; i < steps; ++i) first.step();
    save(first, checkpoints);
  }
  auto resumed = std::make_unique<LoneTrainer>(recipe);
  resumed->resume(CheckpointReader(checkpoints / ("step-0000000" + std::to_string(steps))));
  return resumed;
}

}  // namespace llmtrain::test
