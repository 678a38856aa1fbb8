// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/recipe/recipe.h"
#include "parallel/engine/run_directory.h"
#include "parallel/engine/trainer.h"

namespace llmtrain {

// Logs what is about to run: model and parameters, batch and schedule, memory that the weights and their states take,
// device, data, and where the results go.
void show_start_screen(const Recipe& recipe, Trainer& trainer, const RunDirectory& directory);

}  // namespace llmtrain
