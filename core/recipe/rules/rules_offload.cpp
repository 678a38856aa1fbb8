// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <vector>

#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

// Weights come and go as ZeRO-3's do, and the host writes them.
Verdict check_weights(const Recipe& recipe, const Known&) {
  if (!recipe.memory.offload.weights) return {};
  if (recipe.parallel.zero_stage != 3)
    return Refusal{fmt::format("ZeRO {} keeps weights where they are used", recipe.parallel.zero_stage),
                   "needs parallel.zero_stage 3, also on one rank, or must be false", "false"};
  if (!recipe.memory.offload.moves_states())
    return Refusal{"true leaves the optimizer's states on the device, which are larger",
                   "needs memory.offload.optimizer true or \"disk\", or must be false", "false"};
  return {};
}

Verdict check_folder(const Recipe& recipe, const Known&) {
  if (!recipe.memory.offload.folder || recipe.memory.offload.optimizer == StatesPlace::disk) return {};
  return Refusal{"a folder in which nothing lies", "needs memory.offload.optimizer \"disk\", or must be null", "null"};
}

Verdict check_async(const Recipe& recipe, const Known&) {
  if (!recipe.checkpoint.async || recipe.memory.offload.optimizer != StatesPlace::disk) return {};
  return Refusal{"true with memory.offload.optimizer \"disk\"",
                 "would keep a copy in memory of states that are on a disk for want of it; must be false", "false"};
}

}  // namespace

std::vector<Rule> offload_rules() {
  return {
      {"/memory/offload/weights", {"/parallel/zero_stage", "/memory/offload/optimizer"}, check_weights},
      {"/memory/offload/folder", {"/memory/offload/optimizer"}, check_folder},
      {"/checkpoint/async", {"/memory/offload/optimizer"}, check_async},
  };
}

}  // namespace llmtrain
