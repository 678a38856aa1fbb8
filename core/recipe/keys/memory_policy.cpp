// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/keys/memory_policy.h"

#include <algorithm>
#include <cstdint>

#include "core/recipe/pipeline_order.h"

namespace llmtrain {
namespace {

// Whether the update of one stage has to know nothing of the gradients of others.
bool may_update_early(const Recipe& recipe, const StatesKey& states) {
  const TrainingRecipe& training = recipe.training;
  const bool skips = states("/training/skip_limit") && training.skip_limit != 1;
  return training.clip_norm == 0 && training.spikes.loss == 0 && training.spikes.gradient_norm == 0 && !skips &&
         recipe.precision.compute != DataType::fp16 && !stores_fp8(recipe.precision.fp8_level);
}

// A layer is a stage, as far as the order of the passes allows it.
std::int64_t most_loops(const Recipe& recipe) {
  const std::int64_t ranks = recipe.parallel.pipeline, finest = finest_stages(recipe);
  if (ranks == 1) return finest;
  const bool is_free = recipe.pipeline.schedule == PipelineSchedule::breadth_first &&
                       (recipe.pipeline.balance.kind != BalanceKind::list || finest % ranks == 0);
  return is_free ? std::max<std::int64_t>(1, finest / ranks) : recipe.pipeline.loops;
}

}  // namespace

void set_policy_defaults(Recipe& recipe, const StatesKey& states) {
  const OffloadPolicy policy = recipe.memory.policy;
  if (policy == OffloadPolicy::none) return;
  const auto otherwise = [&](std::string_view pointer, auto& key, auto value) {
    if (!states(pointer)) key = value;
  };
  TrainingRecipe& training = recipe.training;
  OffloadRecipe& offload = recipe.memory.offload;
  otherwise("/memory/offload/optimizer", offload.optimizer, StatesPlace::host);
  if (policy != OffloadPolicy::zero_offload) {
    otherwise("/parallel/zero_stage", recipe.parallel.zero_stage, 3);
    otherwise("/memory/offload/weights", offload.weights, true);
    // PatrickStar's chunks are of what the model consists of.
    if (policy != OffloadPolicy::patrickstar) otherwise("/memory/offload/activations", offload.activations, true);
  }
  // Nothing comes before it is needed.
  if (policy == OffloadPolicy::naive_swapping) otherwise("/parallel/overlap", recipe.parallel.overlap, false);
  const bool states_order = states("/pipeline/schedule") || states("/pipeline/loops");
  if (!states_order) set_default_order(recipe);
  if (policy == OffloadPolicy::harmony) {
    otherwise("/pipeline/schedule", recipe.pipeline.schedule, PipelineSchedule::breadth_first);
    otherwise("/training/update_in_backward", training.update_in_backward, may_update_early(recipe, states));
    if (training.update_in_backward) otherwise("/training/skip_limit", training.skip_limit, 1);
  }
  otherwise("/pipeline/loops", recipe.pipeline.loops, most_loops(recipe));
  const bool leave = offload.moves_states() && !training.update_in_backward && recipe.pipeline.loops > 1;
  otherwise("/memory/offload/gradients", offload.gradients, leave);
}

}  // namespace llmtrain
