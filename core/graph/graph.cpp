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

// Adds up what `count` counts of each parameter.
template <class Count>
std::int64_t sum(const std::vector<Parameter>& parameters, Count count) {
  return std::transform_reduce(parameters.begin(), parameters.end(), std::int64_t{0}, std::plus<>(), count);
}

}  // namespace

bool has_experts(const ModelRecipe& model, std::int64_t layer) {
  return model.moe && model.moe->are_in(layer) && model.kind_of(layer).has_feed_forward;
}

std::int64_t Block::hidden_size() const {
  return std::visit([](const auto& of_kind) { return of_kind.hidden_size; }, settings);
}

bool Block::reads_in_backward() const {
  return std::visit([](const auto& of_kind) { return of_kind.reads_in_backward; }, settings);
}

bool Block::runs_again() const {
  return std::visit([](const auto& of_kind) { return of_kind.runs_again; }, settings);
}

const MixtureOfExpertsRecipe* Block::experts() const {
  const LayerSettings* const of_layer = layer();
  return of_layer != nullptr && of_layer->feed_forward.experts ? &*of_layer->feed_forward.experts : nullptr;
}

std::int64_t Graph::parameter_count() const {
  return sum(parameters, [](const Parameter& parameter) { return parameter.elements(); });
}

std::int64_t Graph::trained_parameter_count() const {
  return sum(parameters, [](const Parameter& parameter) { return parameter.is_frozen ? 0 : parameter.elements(); });
}

std::int64_t Graph::active_parameter_count() const {
  return sum(parameters, [&](const Parameter& parameter) {
    if (!parameter.has_expert_axis) return parameter.elements();
    // A token goes to top_k of the experts, all of equal size.
    const MixtureOfExpertsRecipe& moe = *blocks[parameter.readers.front()].experts();
    return parameter.elements() / moe.experts * moe.top_k;
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

std::size_t Graph::block_named(std::string_view name) const {
  const auto place = std::ranges::find(blocks, name, &Block::name);
  if (place == blocks.end()) throw std::out_of_range(fmt::format("the graph has no block {}", name));
  return static_cast<std::size_t>(place - blocks.begin());
}

std::size_t Graph::first_with_backward() const {
  return static_cast<std::size_t>(std::ranges::find(blocks, true, &Block::has_backward) - blocks.begin());
}

std::int64_t Graph::units() const { return std::ranges::count_if(blocks, &Block::is_unit); }

void Graph::share(std::size_t parameter, std::size_t block, std::string local_name) {
  std::vector<std::size_t>& readers = parameters[parameter].readers;
  if (block <= readers.front()) throw std::invalid_argument("a block shares parameters of earlier blocks");
  blocks[block].shared.push_back({std::move(local_name), parameter});
  blocks[readers.front()].lends = true;
  // A block may read it under several names.
  const auto place = std::ranges::lower_bound(readers, block);
  if (place == readers.end() || *place != block) readers.insert(place, block);
}

void Graph::raise(LossTerm term) {
  if (!(term.coefficient > 0)) throw std::invalid_argument("a term of the loss has a coefficient above 0");
  const auto place = term.is_of_rows ? std::ranges::find(losses, false, &LossTerm::is_of_rows) : losses.end();
  losses.insert(place, std::move(term));
  // The indices of those behind it have changed.
  for (Block& block : blocks) block.losses.clear();
  for (std::size_t index = 0; index < losses.size(); ++index) blocks[losses[index].block].losses.push_back(index);
}

std::span<const LossTerm> Graph::row_losses() const {
  return std::span(losses).first(static_cast<std::size_t>(std::ranges::count(losses, true, &LossTerm::is_of_rows)));
}

double Graph::loss_coefficient(std::size_t block, std::string_view name) const {
  for (const std::size_t index : blocks.at(block).losses)
    if (losses[index].name == name) return losses[index].coefficient;
  return 0;
}

}  // namespace llmtrain
