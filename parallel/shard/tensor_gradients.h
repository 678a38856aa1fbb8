// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/graph/graph.h"
#include "core/parameters/parameter_store.h"
#include "parallel/layout/flat_shards.h"
#include "parallel/shard/tensor_parallel.h"

namespace llmtrain {

// What the tensor ranks owe each other of a store's gradients: the sums of core/graph/sharding.h's gradient_sum().
class TensorGradients {
 public:
  // Of the elements `owned` of the store, the same on all ranks of the tensor group.
  TensorGradients(const Graph& graph, const ParameterStore& store, const TensorParallel& ranks, FlatInterval owned);

  // In place, in flat gradients that begin with the first owned element. All tensor ranks call it together; blocks.
  void sum(const at::Tensor& gradients) const;

  // Over all tensor ranks together every element of the model counts once; within `part` of the owned elements.
  double sum_of_squares(const at::Tensor& gradients, FlatInterval part) const;

 private:
  TensorParallel ranks_;
  FlatInterval owned_;
  // In elements of the store, neighbours joined.
  std::vector<FlatInterval> summed_, summed_over_copies_, counted_;
};

}  // namespace llmtrain
