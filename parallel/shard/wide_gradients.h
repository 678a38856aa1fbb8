// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/graph/graph.h"
#include "core/model/fp8_history.h"
#include "core/parameters/parameter_store.h"
#include "parallel/comm/communicator.h"
#include "parallel/layout/flat_shards.h"
#include "parallel/shard/rank_groups.h"

namespace llmtrain {

// The gradients of a store's matrices whose products have left FP8 (core/model/fp8_history.h), where those of the
// others become FP8: they stay in the type in which the micro-batches were summed, and data ranks sum them as they are.
// Each of these ranks has all of them until the update, at every ZeRO stage.
class WideGradients {
 public:
  // All outlive this; without a history no product leaves FP8.
  WideGradients(const Graph& graph, const ParameterStore& store, const Fp8History* history,
                const TensorParallel& ranks);

  // Copies those of a step from the accumulated gradients of the whole store. Which they are is decided here, and holds
  // until drop().
  void take(const at::Tensor& accumulated);
  void drop() { sums_.reset(), places_.assign(places_.size(), std::nullopt); }

  // Whether the matrix of the store's range with this index is among them.
  bool have(std::size_t range) const { return places_[range].has_value(); }

  // The sum over the data ranks, in place. Collective, where there are any: which is the same on all of these ranks.
  Handle sum(const DataParallel& ranks) const;
  // That over tensor ranks that hold the same heads; blocks. Collective likewise.
  void sum_copies() const;

  // Elements of the store within a range that they have, in fp32.
  at::Tensor piece(std::size_t range, FlatInterval elements) const;

 private:
  at::Tensor of_range(std::size_t range) const;

  const ParameterStore& store_;
  const Fp8History* history_;
  TensorParallel ranks_;
  // Of the ranges, with a history: by which it names them.
  std::vector<std::size_t> products_;
  std::vector<bool> are_copied_;                     // ranges of which other tensor ranks hold the same
  at::Tensor sums_;                                  // one matrix after another; undefined where there are none
  std::vector<std::optional<std::int64_t>> places_;  // of the ranges in it
};

}  // namespace llmtrain
