// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/graph/graph.h"
#include "core/model/layers/fp8_history.h"
#include "core/parameters/parameter_store.h"
#include "parallel/comm/communicator.h"
#include "parallel/layout/flat_shards.h"
#include "parallel/shard/rank_groups.h"
#include "parallel/shard/states/gradient_fallback.h"

namespace llmtrain {

// The gradients of a store's matrices that have left FP8, with their products (core/model/layers/fp8_history.h) or on
// their own (gradient_fallback.h), where those of the others become FP8: they stay in the type in which the
// micro-batches were summed, and data ranks sum them as they are. Each of these ranks has all of them until the update,
// at every ZeRO stage.
class UncastGradients {
 public:
  // All outlive this; `history` and `fallback` are null where none leave so.
  UncastGradients(const Graph& graph, const ParameterStore& store, const Fp8History* history,
                  const GradientFallback* fallback);

  // Copies those of a step from the accumulated gradients of the whole store. Which they are is decided here, and holds
  // until drop().
  void take(const at::Tensor& accumulated);
  void drop() { sums_.reset(), places_.assign(places_.size(), std::nullopt); }

  // Whether the matrix of the store's range with this index is among them.
  bool have(std::size_t range) const { return places_[range].has_value(); }

  // The sum over the data ranks, in place. Collective, where there are any: which is the same on all of these ranks.
  Handle sum(const DataParallel& ranks) const;

  // Elements of the store within a range that they have, in fp32.
  at::Tensor piece(std::size_t range, FlatInterval elements) const;

 private:
  bool has_left(std::size_t range) const;
  at::Tensor of_range(std::size_t range) const;

  const ParameterStore& store_;
  const Fp8History* history_;
  const GradientFallback* fallback_;
  std::vector<std::size_t> products_;                // of the ranges, with a history: by which it names them
  at::Tensor sums_;                                  // one matrix after another; undefined where there are none
  std::vector<std::optional<std::int64_t>> places_;  // of the ranges in it
};

}  // namespace llmtrain
