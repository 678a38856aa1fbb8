// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "core/graph/graph.h"

namespace llmtrain {

// The layer of each block, from 0 over the whole model: what is no layer goes with the one before it, the embedding
// with the first one.
std::vector<std::size_t> layers_of_blocks(const Graph& graph);

// Marks what the backward of each layer computes again (Block::recompute), by layer from 0 over the whole model; layers
// after the list's end keep everything. A list of all layers is the same as its word. Without a list nothing is marked.
void mark_recompute(Graph& graph, const std::vector<Recompute>& of_layers);

// Whether the graph's marks are those of the list.
bool has_recompute(const Graph& graph, const std::vector<Recompute>& of_layers);

}  // namespace llmtrain
