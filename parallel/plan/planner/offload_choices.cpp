// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/offload_choices.h"

#include <algorithm>
#include <utility>

#include "core/json/document.h"
#include "core/recipe/pipeline_order.h"
#include "core/recipe/recipe_io.h"
#include "core/recipe/rules/rules.h"
#include "parallel/layout/executable.h"
#include "parallel/plan/cost/priced_layout.h"

namespace llmtrain {
namespace {

// A list of layers by stage is for as many stages as there are.
bool may_be_staged(const Recipe& recipe, const Mesh& mesh) {
  return mesh.pipeline == 1 && recipe.pipeline.loops == 1 && recipe.pipeline.balance.kind == BalanceKind::layers;
}

// The recipe, whose weights are on the host, in a layout that brings them. Breadth first they come twice per step,
// otherwise twice for every micro-batch, of which fewer are then in flight.
Recipe with_weights_there(Recipe recipe, const Mesh& mesh, bool is_breadth_first) {
  if (mesh.data * mesh.context > 1) return recipe;
  if (is_breadth_first && mesh.pipeline == 1) recipe.pipeline.schedule = PipelineSchedule::breadth_first;
  recipe.parallel.zero_stage = 3;
  if (may_be_staged(recipe, mesh)) recipe.pipeline.loops = with_dependent_defaults(recipe).pipeline.loops;
  return recipe;
}

// The recipe in an order in which gradients leave stage by stage: with several micro-batches all of them are there when
// the last one begins, unless these go through a stage at once.
Recipe with_gradients_there(Recipe recipe, const Mesh& mesh) {
  recipe.memory.offload.gradients = true;
  if (mesh.pipeline > 1) return recipe;
  if (mesh.micro_batches(recipe.batch) > 1) recipe.pipeline.schedule = PipelineSchedule::breadth_first;
  return in_stages(std::move(recipe), mesh);
}

}  // namespace

Recipe with_offload(Recipe recipe, const OffloadRecipe& offload) {
  recipe.memory.offload = offload;
  // A copy for it would take the memory that the disk spares.
  if (offload.optimizer == StatesPlace::disk) recipe.checkpoint.async = false;
  return recipe;
}

bool keeps_rules(const Recipe& recipe) {
  const Document as_read;
  Problems problems(as_read);
  check_rules(recipe, {}, problems);
  return problems.empty();
}

Recipe in_stages(Recipe recipe, const Mesh& mesh) {
  if (may_be_staged(recipe, mesh)) recipe.pipeline.loops = finest_stages(recipe);
  return recipe;
}

std::vector<OffloadRecipe> more_on_host(const Recipe& recipe, const ClusterProfile& cluster) {
  std::vector<OffloadRecipe> choices;
  if (compute_device(recipe, cluster) == ComputeDevice::cpu) {
    // Elsewhere the system's own swapping may serve; how long the disk takes must be known.
    if (!cluster.device.has_hard_memory || cluster.host.disk_bandwidth <= 0 || recipe.memory.offload.moves_states())
      return choices;
    choices.push_back(recipe.memory.offload);
    choices.back().optimizer = StatesPlace::disk;
    return choices;
  }
  if (cluster.device.pcie_bandwidth <= 0) return choices;
  const auto add = [&](const OffloadRecipe& choice) {
    if (choice != recipe.memory.offload && std::ranges::count(choices, choice) == 0) choices.push_back(choice);
  };
  for (const bool activations : {false, true}) {
    OffloadRecipe choice = recipe.memory.offload;
    choice.activations |= activations;
    add(choice);
    // How long the host's step takes must be known.
    if (cluster.host.memory_bandwidth <= 0) continue;
    if (!choice.moves_states()) choice.optimizer = StatesPlace::host;
    add(choice);
    choice.weights = true;
    add(choice);
  }
  return choices;
}

std::vector<Recipe> offload_choices(const Recipe& recipe, const Mesh& mesh, const ClusterProfile& cluster) {
  const auto refused = not_executable(recipe).size();
  std::vector<Recipe> choices;
  const auto add = [&](Recipe choice) {
    if (std::ranges::count(choices, choice) > 0) return;
    if (keeps_rules(choice) && not_executable(choice).size() <= refused) choices.push_back(std::move(choice));
  };
  const bool is_gpu = compute_device(recipe, cluster) == ComputeDevice::cuda;
  const auto add_with_gradients = [&](const Recipe& choice) {
    add(choice);
    if (is_gpu && choice.memory.offload.moves_states()) add(with_gradients_there(choice, mesh));
  };
  for (const OffloadRecipe& offload : more_on_host(recipe, cluster)) {
    const Recipe choice = with_offload(recipe, offload);
    if (!offload.weights) {
      add_with_gradients(choice);
      continue;
    }
    for (const bool is_breadth_first : {false, true})
      add_with_gradients(with_weights_there(choice, mesh, is_breadth_first));
  }
  return choices;
}

}  // namespace llmtrain
