// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include "core/recipe/checkpoint_source.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The folder of transformers whose weights the checkpoints of a run with adapters leave out, since they stay as they
// are there; none where checkpoints hold all. A run or a checkpoint that it began with may be removed, or be followed
// by a newer one, while this run goes on: its weights are not left out.
inline std::optional<std::filesystem::path> left_out_base(const Recipe& recipe) {
  if (!recipe.model.lora || recipe.checkpoint.save_base) return std::nullopt;
  return huggingface_folder(recipe.training.init_from.value_or(""));
}

}  // namespace llmtrain
