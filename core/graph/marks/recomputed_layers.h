// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/graph/graph.h"

namespace llmtrain {

// Marks what the backward of each layer computes again (Block::recompute), by layer from 0 over the whole model; layers
// after the list's end keep everything. What is no layer goes with the layer before it, the embedding with the first
// one, so that a list of all layers is the same as its word. Without a list nothing is marked.
void mark_recompute(Graph& graph, const std::vector<Recompute>& of_layers);

// Whether the graph's marks are those of the list.
bool has_recompute(const Graph& graph, const std::vector<Recompute>& of_layers);

}  // namespace llmtrain
