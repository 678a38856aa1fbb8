// SPDX-License-Identifier: Apache-2.0
#include "core/graph/high_precision.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <initializer_list>

#include "core/base/error.h"

namespace llmtrain {
namespace {

using Role = ParameterRole;

void match_names(Graph& graph, const std::vector<std::string>& patterns) {
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    bool is_used = false;
    for (Parameter& parameter : graph.parameters) {
      if (!parameter.is_layer_matrix || !matches(patterns[i], parameter.name)) continue;
      parameter.is_high_precision = is_used = true;
    }
    if (!is_used)
      throw Error(
          ExitCode::bad_recipe,
          fmt::format("/precision/high_precision/parameters/{}: \"{}\" matches no matrix of a layer; must match "
                      "names such as \"layers.0.attention.query.weight\", with * for any text",
                      i, patterns[i]));
  }
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
  match_names(graph, high_precision.parameters);
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

bool matches(std::string_view pattern, std::string_view text) {
  // Where the last * is, and how far it reaches: a mismatch behind it lets it reach one character further.
  std::size_t star = std::string_view::npos, reached = 0, at = 0, i = 0;
  while (i < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      reached = i;
    } else if (at < pattern.size() && pattern[at] == text[i]) {
      ++at;
      ++i;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      i = ++reached;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', at) == std::string_view::npos;
}

}  // namespace llmtrain
