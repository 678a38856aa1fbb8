// SPDX-License-Identifier: Apache-2.0
#include "core/graph/high_precision.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "core/graph/name_patterns.h"

namespace llmtrain {
namespace {

using Role = ParameterRole;

void match_names(Graph& graph, NamePatterns patterns) {
  for (Parameter& parameter : graph.parameters)
    if (parameter.is_layer_matrix && patterns.match(parameter.name)) parameter.is_high_precision = true;
  patterns.require_used("/precision/high_precision/parameters", "matrix of a layer");
}

// Where one of the block's parameters of these roles stays in high precision, all do.
void join(Graph& graph, const Block& block, std::initializer_list<Role> roles) {
  const auto is_one = [&](std::size_t index) { return std::ranges::count(roles, graph.parameters[index].role) > 0; };
  const bool any = std::ranges::any_of(
      block.parameters, [&](std::size_t index) { return is_one(index) && graph.parameters[index].is_high_precision; });
  for (const std::size_t index : block.parameters)
    if (is_one(index)) graph.parameters[index].is_high_precision = any;
}

}  // namespace

void keep_precision(Graph& graph, const HighPrecisionRecipe& high_precision) {
  match_names(graph, NamePatterns(high_precision.parameters));
  for (const Block& block : graph.blocks) {
    if (block.kind != BlockKind::layer) continue;
    const bool is_end =
        block.layer < high_precision.first_layers || block.layer >= graph.model.layers - high_precision.last_layers;
    for (const std::size_t index : block.parameters) {
      Parameter& parameter = graph.parameters[index];
      if (is_end && parameter.is_layer_matrix) parameter.is_high_precision = true;
    }
    join(graph, block, {Role::query_weight, Role::key_weight, Role::value_weight});
    join(graph, block, {Role::ffn_gate_weight, Role::ffn_up_weight});
    join(graph, block, {Role::expert_gate_weight, Role::expert_up_weight});
  }
}

}  // namespace llmtrain
