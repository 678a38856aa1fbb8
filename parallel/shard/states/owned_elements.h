// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/checkpoint/tensor_slice.h"
#include "core/graph/graph.h"
#include "core/graph/sharding.h"
#include "core/parameters/parameter_store.h"
#include "parallel/layout/flat_shards.h"
#include "parallel/shard/states/sharded_parameters.h"

namespace llmtrain {

// Elements [begin, end) of this rank's part of a parameter, without padding. They start at index `place` in the tensors
// over the rank's owned range.
struct OwnedElements {
  const Parameter* parameter = nullptr;
  LocalPart part;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t place = 0;

  std::int64_t count() const { return end - begin; }
  // Where they are in tensors over the owned range.
  FlatInterval interval() const { return {place, place + count()}; }
  // Elements [first, last) of the part as boxes of the whole parameter, in the order of memory.
  std::vector<SliceBox> boxes(std::int64_t first, std::int64_t last) const;
};

// The elements of a unit's parameters that lie in an interval of its flat memory.
std::vector<OwnedElements> elements_in(const Graph& graph, const ParameterStore& store,
                                       const ShardedParameters& parameters, const FlatInterval& interval);

// Those that this rank writes to a checkpoint: ranks that own the same elements share them evenly, and all ranks
// together write every element once.
std::vector<OwnedElements> saved_elements(const Graph& graph, const ParameterStore& store,
                                          const ShardedParameters& parameters);

}  // namespace llmtrain
