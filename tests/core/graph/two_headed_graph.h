// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/graph.h"

namespace llmtrain::test {

constexpr double second_coefficient = 0.3;

// The model's graph with a head more at its end, which has weights of its own but for a tied table, and raises the term
// "second": parameters of its own are named as the first one's behind "second.". It reads what this layer makes, or
// without one what the first head reads.
inline Graph two_headed_graph(const ModelRecipe& model, std::optional<std::int64_t> layer = {}) {
  Graph graph = Graph::build(model);
  const Block first = graph.blocks.back();
  const std::size_t second = graph.blocks.size();
  const std::vector<std::size_t> inputs =
      layer ? graph.blocks[graph.block_named("layers." + std::to_string(*layer))].outputs : first.inputs;
  graph.blocks.push_back({.name = "second", .settings = first.settings, .inputs = inputs, .alike = second});
  for (const std::size_t index : first.parameters) {
    Parameter own = graph.parameters[index];
    own.name = "second." + own.name;
    own.readers = {second};
    graph.blocks.back().parameters.push_back(graph.parameters.size());
    graph.parameters.push_back(std::move(own));
  }
  for (const Block::Shared& shared : first.shared) graph.share(shared.parameter, second, shared.local_name);
  graph.raise({.name = "second", .block = second, .coefficient = second_coefficient});
  return graph;
}

}  // namespace llmtrain::test
