// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/graph.h"

namespace llmtrain::test {

constexpr double second_coefficient = 0.3;

// Where the second head stands among the blocks.
enum class HeadPlace { last, behind_its_layer };

// Moves the blocks from this one on by one, whose place is empty then.
inline void make_room(Graph& graph, std::size_t block) {
  const auto move = [block](std::size_t& index) { index += index >= block ? 1 : 0; };
  for (Parameter& parameter : graph.parameters) std::ranges::for_each(parameter.readers, move);
  for (Block& each : graph.blocks) move(each.alike);
  for (LossTerm& term : graph.losses) move(term.block);
  graph.blocks.emplace(graph.blocks.begin() + static_cast<std::ptrdiff_t>(block));
}

// The model's graph with a head more, which has weights of its own but for a tied table, and raises the term "second":
// parameters of its own are named as the first one's behind "second.". It reads what this layer makes, or without one
// what the first head reads, behind which it stands.
inline Graph two_headed_graph(const ModelRecipe& model, std::optional<std::int64_t> layer = {},
                              HeadPlace place = HeadPlace::last) {
  Graph graph = Graph::build(model);
  const Block first = graph.blocks.back();
  const std::size_t read = layer ? graph.block_named("layers." + std::to_string(*layer)) : graph.blocks.size() - 1;
  const std::vector<std::size_t> inputs = layer ? graph.blocks[read].outputs : first.inputs;
  const std::size_t second = place == HeadPlace::last ? graph.blocks.size() : read + 1;
  make_room(graph, second);
  graph.blocks[second] = {.name = "second", .settings = first.settings, .inputs = inputs, .alike = second};
  for (const std::size_t index : first.parameters) {
    Parameter own = graph.parameters[index];
    own.name = "second." + own.name;
    own.readers = {second};
    graph.blocks[second].parameters.push_back(graph.parameters.size());
    graph.parameters.push_back(std::move(own));
  }
  for (const Block::Shared& shared : first.shared) graph.share(shared.parameter, second, shared.local_name);
  graph.raise({.name = "second", .block = second, .coefficient = second_coefficient});
  return graph;
}

}  // namespace llmtrain::test
