// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/pipeline_order.h"

#include <algorithm>
#include <iterator>
#include <optional>

#include "core/recipe/pipeline_schedules.h"
#include "core/recipe/rules/rules.h"
#include "core/recipe/schedules/batch_sizes.h"

namespace llmtrain {
namespace {

// None where the machine or its profile decides how many ranks there are.
std::optional<std::int64_t> stated_data_ranks(const Recipe& recipe) {
  if (recipe.parallel.data) return recipe.parallel.data;
  const auto& devices_per_node = recipe.cluster.devices_per_node;
  if (!recipe.launch.ranks && !devices_per_node) return std::nullopt;
  const std::int64_t ranks = world_of(recipe, devices_per_node.value_or(1)).ranks;
  return std::max<std::int64_t>(1, ranks / ranks_per_replica(recipe.parallel));
}

bool interleaves(const Recipe& recipe, std::int64_t loops) {
  const auto data = stated_data_ranks(recipe);
  const auto group = micro_batch_group(PipelineSchedule::interleaved, recipe.parallel.pipeline, loops);
  return data && common_batch(recipe.batch) % (recipe.batch.micro * *data * group) == 0;
}

}  // namespace

std::int64_t block_count(const ModelRecipe& model) {
  const std::int64_t further = model.multi_token_prediction ? model.multi_token_prediction->depth : 0;
  // Embedding and head, and of each further token a layer and a head.
  std::int64_t between = 0;
  if (is_encoder_decoder(model.architecture)) between = model.architecture == Architecture::t5 ? 2 : 1;
  return layer_count(model) + 2 + between + 2 * further;
}

std::int64_t finest_stages(const Recipe& recipe) {
  const BalanceRecipe& balance = recipe.pipeline.balance;
  switch (balance.kind) {
    case BalanceKind::layers:
      return layer_count(recipe.model);
    case BalanceKind::blocks:
      return block_count(recipe.model);
    case BalanceKind::list:
      return std::max<std::int64_t>(1, std::ssize(balance.layers_per_stage));
  }
  return 1;
}

bool reduces_once(const Recipe& recipe) {
  return stores_fp8(recipe.precision.fp8_level) && recipe.parallel.zero_stage >= 2;
}

void set_default_order(Recipe& recipe) {
  const std::int64_t ranks = recipe.parallel.pipeline, finest = finest_stages(recipe);
  if (recipe.parallel.zero_stage < 3 || ranks == 1) return;
  // Layers that do not divide are placed unevenly; a list has a fixed number of stages.
  const bool has_whole_loops = recipe.pipeline.balance.kind != BalanceKind::list || finest % ranks == 0;
  const std::int64_t loops = has_whole_loops ? std::max<std::int64_t>(1, finest / ranks) : 1;
  if (reduces_once(recipe)) {
    recipe.pipeline.schedule = PipelineSchedule::breadth_first;
    recipe.pipeline.loops = loops;
  } else if (loops > 1 && interleaves(recipe, loops)) {
    recipe.pipeline.schedule = PipelineSchedule::interleaved;
    recipe.pipeline.loops = loops;
  } else {
    recipe.pipeline.schedule = PipelineSchedule::one_forward_one_backward;
    recipe.pipeline.loops = 1;
  }
}

}  // namespace llmtrain
