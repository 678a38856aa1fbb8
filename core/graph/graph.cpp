// SPDX-License-Identifier: Apache-2.0
#include "core/graph/graph.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>

namespace llmtrain {

namespace {

using Role = ParameterRole;

// Index of the block's parameter of that role, or the number of parameters.
std::size_t find_parameter(const Graph& graph, std::size_t block, ParameterRole role) {
  for (const std::size_t index : graph.blocks.at(block).parameters)
    if (graph.parameters[index].role == role) return index;
  return graph.parameters.size();
}

bool grows_with_vocabulary_or_positions(ParameterRole role) {
  return role == Role::token_embedding || role == Role::position_embedding || role == Role::head_weight;
}

}  // namespace

std::int64_t Parameter::elements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t Graph::parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters) count += parameter.elements();
  return count;
}

std::int64_t Graph::active_parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters) {
    const std::int64_t elements = parameter.elements();
    // A token goes to top_k of the experts, all of equal size.
    count += parameter.has_expert_axis ? elements / model.moe->experts * model.moe->top_k : elements;
  }
  return count;
}

std::int64_t Graph::embedding_parameter_count() const {
  std::int64_t count = 0;
  for (const Parameter& parameter : parameters)
    if (grows_with_vocabulary_or_positions(parameter.role)) count += parameter.elements();
  return count;
}

std::int64_t Graph::non_embedding_parameter_count() const { return parameter_count() - embedding_parameter_count(); }

const Parameter& Graph::parameter(std::size_t block, ParameterRole role) const {
  const std::size_t index = find_parameter(*this, block, role);
  if (index == parameters.size()) throw std::out_of_range("a block of the graph has no parameter of this role");
  return parameters[index];
}

bool Graph::has_parameter(std::size_t block, ParameterRole role) const {
  return find_parameter(*this, block, role) != parameters.size();
}

std::size_t Graph::block_of(BlockKind kind) const {
  const auto place = std::find_if(blocks.begin(), blocks.end(), [&](const Block& block) { return block.kind == kind; });
  if (place == blocks.end()) throw std::out_of_range("the graph has no block of this kind");
  return static_cast<std::size_t>(place - blocks.begin());
}

const Parameter& Graph::logits_weight() const {
  return model.tie_embeddings ? parameter(block_of(BlockKind::embedding), Role::token_embedding)
                              : parameter(block_of(BlockKind::head), Role::head_weight);
}

}  // namespace llmtrain
