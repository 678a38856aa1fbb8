// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/graph/graph.h"

namespace llmtrain {

// One value for all identical blocks of a Graph (Block::alike): a model of a hundred layers is evaluated as fast as one
// of two. The graph outlives this.
template <class Value>
class BlockCache {
 public:
  explicit BlockCache(const Graph& graph) : graph_(graph), values_(graph.blocks.size()) {}

  // `make` is called for the first of the identical blocks.
  template <class Make>
  const Value& of(std::size_t block, Make make) {
    std::optional<Value>& value = values_[graph_.blocks[block].alike];
    if (!value) value.emplace(make());
    return *value;
  }

 private:
  const Graph& graph_;
  std::vector<std::optional<Value>> values_;
};

}  // namespace llmtrain
