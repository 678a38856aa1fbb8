// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/planned_routing.h"

#include <algorithm>

#include "core/graph/routed_load.h"

namespace llmtrain {

std::optional<PlannedRouting> planned_routing(const Layout& layout) {
  const Graph& graph = layout.graph();
  if (graph.routing == nullptr) return std::nullopt;
  const MixtureOfExpertsRecipe& moe = *graph.model.moe;
  const PassSetting setting = pass_setting(layout.partition(), KernelSet::cpu);
  PlannedRouting mean;
  const double part = 1 / static_cast<double>(expert_layers(graph.model)), choices = static_cast<double>(moe.top_k);
  for (std::int64_t layer = 0; layer < graph.model.layers; ++layer) {
    if (!has_experts(graph.model, layer)) continue;
    const RoutedLoad load = routed_load(graph, layer, setting);
    mean.expert_load += part * load.fullest * static_cast<double>(moe.experts) / choices;
    mean.rank_load += part * load.busiest * static_cast<double>(setting.shards.expert);
    mean.dropped_share += part * (1 - load.kept / choices);
    mean.idle_ranks += part * static_cast<double>(idle_ranks(graph, layer, setting));
  }
  // What is kept is a sum of shares, which may round above the choices.
  mean.dropped_share = std::max(0.0, mean.dropped_share);
  return mean;
}

}  // namespace llmtrain
