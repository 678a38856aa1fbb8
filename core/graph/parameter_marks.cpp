// SPDX-License-Identifier: Apache-2.0
#include "core/graph/parameter_marks.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>

#include "core/base/error.h"
#include "core/graph/name_patterns.h"

namespace llmtrain {
namespace {

using Role = ParameterRole;

// Roles of parameters whose gradients come from one matrix product.
constexpr std::array<std::array<Role, 3>, 4> joined = {{
    {Role::query_weight, Role::key_weight, Role::value_weight},
    {Role::query_bias, Role::key_bias, Role::value_bias},
    {Role::ffn_gate_weight, Role::ffn_up_weight, Role::ffn_up_weight},
    {Role::ffn_gate_bias, Role::ffn_up_bias, Role::ffn_up_bias},
}};

void freeze_matches(Graph& graph, NamePatterns patterns) {
  for (Parameter& parameter : graph.parameters)
    if (patterns.match(parameter.name)) parameter.is_frozen = true;
  patterns.require_used("/training/freeze", "parameter");
}

// Where of the block's parameters of these roles some are frozen, all must be.
void require_joint(const Graph& graph, const Block& block, const std::array<Role, 3>& roles) {
  const Parameter *frozen = nullptr, *trained = nullptr;
  for (const std::size_t index : block.parameters) {
    const Parameter& parameter = graph.parameters[index];
    if (std::ranges::count(roles, parameter.role) > 0) (parameter.is_frozen ? frozen : trained) = &parameter;
  }
  if (frozen == nullptr || trained == nullptr) return;
  throw Error(ExitCode::bad_recipe,
              fmt::format("/training/freeze: {} is frozen and {} is trained; both must be one or the other, because "
                          "they are multiplied as one matrix",
                          frozen->name, trained->name));
}

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

void freeze(Graph& graph, const std::vector<std::string>& patterns) {
  if (graph.model.lora)
    for (Parameter& parameter : graph.parameters) parameter.is_frozen = !parameter.adapts;
  freeze_matches(graph, NamePatterns(patterns));
  for (const Block& block : graph.blocks)
    for (const std::array<Role, 3>& roles : joined) require_joint(graph, block, roles);
  if (std::ranges::all_of(graph.parameters, &Parameter::is_frozen))
    throw Error(ExitCode::bad_recipe, "/training/freeze: freezes all parameters; must leave some to train");
}

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
