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

// Of what `count` counts of each parameter.
template <class Count>
std::int64_t sum(const std::vector<Parameter>& parameters, Count count) {
  return std::transform_reduce(parameters.begin(), parameters.end(), std::int64_t{0}, std::plus<>(), count);
}

}  // namespace

bool has_experts(const ModelRecipe& model, std::int64_t layer) {
  return model.moe && (layer + 1) % model.moe->every == 0;
}

std::int64_t expert_layers(const ModelRecipe& model) { return model.moe ? model.layers / model.moe->every : 0; }

std::int64_t Graph::parameter_count() const {
  return sum(parameters, [](const Parameter& parameter) { return parameter.elements(); });
}

std::int64_t Graph::trained_parameter_count() const {
  return sum(parameters, [](const Parameter& parameter) { return parameter.is_frozen ? 0 : parameter.elements(); });
}

std::int64_t Graph::active_parameter_count() const {
  return sum(parameters, [&](const Parameter& parameter) {
    // A token goes to top_k of the experts, all of equal size.
    return parameter.has_expert_axis ? parameter.elements() / model.moe->experts * model.moe->top_k
                                     : parameter.elements();
  });
}

std::int64_t Graph::embedding_parameter_count() const {
  return sum(parameters, [](const Parameter& parameter) {
    return grows_with_vocabulary_or_positions(parameter.role) ? parameter.elements() : 0;
  });
}

const Parameter& Graph::parameter(std::size_t block, ParameterRole role) const {
  const std::size_t index = find_parameter(*this, block, role);
  if (index == parameters.size()) throw std::out_of_range("a block of the graph has no parameter of this role");
  return parameters[index];
}

bool Graph::has_parameter(std::size_t block, ParameterRole role) const {
  return find_parameter(*this, block, role) != parameters.size();
}

const Parameter* Graph::adapter(std::size_t block, ParameterRole role, ParameterRole adapted) const {
  for (const std::size_t index : blocks.at(block).parameters)
    if (parameters[index].role == role && parameters[index].adapts == adapted) return &parameters[index];
  return nullptr;
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
