// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <string>
#include <vector>

#include "core/recipe/enum_words.h"
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

// They go to where the update is made, stage by stage.
Verdict check_gradients(const Recipe& recipe, const Known&) {
  if (!recipe.memory.offload.gradients) return {};
  if (!recipe.memory.offload.moves_states())
    return refuse_true("the device, which has the optimizer's states, updates from them",
                       "memory.offload.optimizer true or \"disk\"");
  if (recipe.training.update_in_backward)
    return refuse_true("training.update_in_backward uses a stage's gradients up as soon as they are final",
                       "training.update_in_backward false");
  if (recipe.pipeline.loops == 1)
    return refuse_true("with pipeline.loops 1 all gradients of a rank are final at once, and leave nothing to be saved",
                       "pipeline.loops above 1, up to a stage for each layer");
  return {};
}

// There has to be something that leaves.
Verdict check_residents(const Recipe& recipe, const Known&) {
  const std::int64_t stay = recipe.memory.offload.resident_stages, loops = recipe.pipeline.loops;
  if (stay == 0) return {};
  if (!recipe.memory.offload.moves_states())
    return Refusal{fmt::format("{} with all states on the device", stay),
                   "needs memory.offload.optimizer true or \"disk\", or must be 0", "0"};
  if (stay < loops) return {};
  return Refusal{fmt::format("{} of the {} stages of a rank (pipeline.loops)", stay, loops),
                 fmt::format("must be at most {}; to keep all, set memory.offload.optimizer to false", loops - 1),
                 fmt::format("{}", loops - 1)};
}

// What a policy consists of and the recipe states otherwise; empty: nothing.
std::string missing_of_policy(const Recipe& recipe) {
  const OffloadRecipe& offload = recipe.memory.offload;
  const OffloadPolicy policy = recipe.memory.policy;
  if (!offload.moves_states()) return "memory.offload.optimizer true or \"disk\"";
  if (!offload.gradients && !recipe.training.update_in_backward && recipe.pipeline.loops > 1)
    return "memory.offload.gradients true";
  if (policy == OffloadPolicy::zero_offload) return {};
  if (!offload.weights) return "memory.offload.weights true";
  if (policy == OffloadPolicy::patrickstar) return {};
  if (!offload.activations) return "memory.offload.activations true";
  const bool is_breadth_first = recipe.pipeline.schedule == PipelineSchedule::breadth_first;
  if (policy == OffloadPolicy::harmony && !is_breadth_first) return "pipeline.schedule \"breadth_first\"";
  if (!recipe.memory.swaps_states()) return {};
  if (offload.optimizer == StatesPlace::disk) return "memory.offload.optimizer true";
  if (recipe.parallel.overlap) return "parallel.overlap false";
  return {};
}

Verdict check_policy(const Recipe& recipe, const Known&) {
  if (recipe.memory.policy == OffloadPolicy::none) return {};
  const std::string missing = missing_of_policy(recipe);
  if (missing.empty()) return {};
  return Refusal{fmt::format("\"{}\" without what it consists of", word_of(recipe.memory.policy)),
                 "needs " + missing + ", its own value where the recipe leaves that out, or must be \"none\"",
                 "\"none\""};
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
      {"/memory/offload/gradients",
       {"/memory/offload/optimizer", "/training/update_in_backward", "/pipeline/loops", "/parallel/pipeline",
        "/parallel/zero_stage"},
       check_gradients},
      {"/memory/offload/resident_stages",
       {"/memory/offload/optimizer", "/training/update_in_backward", "/pipeline/loops", "/parallel/pipeline",
        "/parallel/zero_stage"},
       check_residents},
      {"/memory/policy",
       {"/memory/offload/optimizer", "/memory/offload/gradients", "/memory/offload/weights",
        "/memory/offload/activations", "/training/update_in_backward", "/pipeline/loops", "/pipeline/schedule",
        "/parallel/pipeline", "/parallel/zero_stage", "/parallel/overlap"},
       check_policy},
      {"/memory/offload/folder", {"/memory/offload/optimizer"}, check_folder},
      {"/checkpoint/async", {"/memory/offload/optimizer"}, check_async},
  };
}

}  // namespace llmtrain
