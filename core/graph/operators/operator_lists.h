// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "core/graph/operators/operators.h"

namespace llmtrain {

// The lists of a model's blocks in one setting, each made when it is first asked for, and once for blocks that are
// alike. Whoever prices, measures or reports reads these, so that time and memory are of the same lists. Not for use by
// several threads. The graph outlives this.
class OperatorLists {
 public:
  OperatorLists(const Graph& graph, PassSetting setting) : graph_(graph), setting_(setting), lists_(graph) {}

  const OperatorList& of(std::size_t block) const {
    return lists_.of(block, [&] { return block_operators(graph_, block, setting_); });
  }
  // What the block's backward computes again.
  Recompute recompute_of(std::size_t block) const { return llmtrain::recompute_of(graph_, block, setting_); }
  const PassSetting& setting() const { return setting_; }
  const Graph& graph() const { return graph_; }

 private:
  const Graph& graph_;
  PassSetting setting_;
  mutable BlockCache<OperatorList> lists_;
};

}  // namespace llmtrain
