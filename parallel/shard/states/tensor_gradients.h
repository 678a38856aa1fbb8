// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

#include "core/graph/graph.h"
#include "core/parameters/parameter_store.h"
#include "parallel/layout/flat_shards.h"
#include "parallel/shard/rank_groups.h"

namespace llmtrain {

// Sums of a store's gradients over tensor ranks: those that gradient_sum() in core/graph/sharding.h requires.
class TensorGradients {
 public:
  // For the elements `owned` of the store, which must be the same on all ranks of the tensor group, and for gradients
  // that begin with these.
  TensorGradients(const Graph& graph, const ParameterStore& store, const TensorParallel& ranks, FlatInterval owned);

  // In place, in flat gradients that start at the first owned element. Collective over the tensor ranks; blocks.
  void sum(const at::Tensor& gradients) const;

  // Sum of squares within `part` of the owned elements. Summed over all tensor ranks, every element counts once.
  at::Tensor squares(const at::Tensor& gradients, FlatInterval part) const;

 private:
  TensorParallel ranks_;
  FlatInterval owned_;
  // In elements of the store, adjacent intervals merged.
  std::vector<FlatInterval> summed_, counted_;
  std::map<std::int64_t, std::vector<FlatInterval>> summed_over_copies_;  // by how many there are
};

}  // namespace llmtrain
