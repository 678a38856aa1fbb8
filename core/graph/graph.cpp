// SPDX-License-Identifier: Apache-2.0
#include "core/graph/graph.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace llmtrain {

namespace {

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
  return sum(parameters, [](const Parameter& parameter) { return parameter.is_table ? parameter.elements() : 0; });
}

const Parameter* Graph::find_parameter(std::size_t block, std::string_view local_name) const {
  for (const std::size_t index : blocks.at(block).parameters)
    if (parameters[index].local_name == local_name) return &parameters[index];
  for (const Block::Shared& shared : blocks[block].shared)
    if (shared.local_name == local_name) return &parameters[shared.parameter];
  return nullptr;
}

const Parameter& Graph::parameter(std::size_t block, std::string_view local_name) const {
  if (const Parameter* found = find_parameter(block, local_name)) return *found;
  std::vector<std::string_view> names;
  for (const std::size_t index : blocks[block].parameters) names.emplace_back(parameters[index].local_name);
  for (const Block::Shared& shared : blocks[block].shared) names.emplace_back(shared.local_name);
  throw std::out_of_range(
      fmt::format("block {} of the graph has no parameter {}, but {}", block, local_name, fmt::join(names, ", ")));
}

std::size_t Graph::last_of_product(std::size_t first) const {
  std::size_t last = first;
  while (last + 1 < parameters.size() && parameters[last + 1].joined == Joined::product) ++last;
  return last;
}

std::size_t Graph::block_of(BlockKind kind) const {
  const auto place = std::find_if(blocks.begin(), blocks.end(), [&](const Block& block) { return block.kind == kind; });
  if (place == blocks.end()) throw std::out_of_range("the graph has no block of this kind");
  return static_cast<std::size_t>(place - blocks.begin());
}

void Graph::share(std::size_t parameter, std::size_t block, std::string local_name) {
  std::vector<std::size_t>& readers = parameters[parameter].readers;
  if (block <= readers.front()) throw std::invalid_argument("a block shares parameters of earlier blocks");
  blocks[block].shared.push_back({std::move(local_name), parameter});
  // A block may read it under several names.
  const auto place = std::ranges::lower_bound(readers, block);
  if (place == readers.end() || *place != block) readers.insert(place, block);
}

}  // namespace llmtrain
