// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "core/graph/graph.h"

namespace llmtrain {

// After blocks were marked: those that were alike stay so (Block::alike) where their marks are equal.
// `have_equal_marks(a, b)` compares two blocks.
template <class Equal>
void set_marked_apart(Graph& graph, Equal have_equal_marks) {
  std::vector<std::size_t> alike;  // before
  for (const Block& block : graph.blocks) alike.push_back(block.alike);
  for (std::size_t block = 0; block < graph.blocks.size(); ++block) {
    const auto are_alike = [&](std::size_t other) {
      return alike[other] == alike[block] && have_equal_marks(graph.blocks[other], graph.blocks[block]);
    };
    std::size_t& first = graph.blocks[block].alike;
    // Ends at the block itself at the latest.
    for (first = 0; !are_alike(first);) ++first;
  }
}

}  // namespace llmtrain
