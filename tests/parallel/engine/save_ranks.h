// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "parallel/engine/model_state.h"
#include "parallel/engine/trainer.h"
#include "parallel/run/checkpoint_saver.h"

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

}  // namespace llmtrain::test
