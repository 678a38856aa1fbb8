// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/graph/graph.h"
#include "core/parameters/parameter_store.h"
#include "parallel/comm/communicator.h"
#include "parallel/layout/joined_slices.h"
#include "parallel/layout/state_groups.h"
#include "parallel/shard/rank_groups.h"
#include "parallel/shard/states/shard_gather.h"

namespace llmtrain {

// A group of experts' parameters as the modules compute with them, where ZeRO 3 stores finer slices than the products
// are split into (ExpertSplits): gathers the slices of other ranks, joins them, and cuts gradients into slices again.
// What it gathers has the current split of the step.
class JoinedExperts {
 public:
  // The graph and the splits must outlive this.
  JoinedExperts(const Graph& graph, const StateGroup& group, const RankGroups& ranks);

  // Where the joined weights are lent to, from finish_gather() to free().
  ParameterStore& store() { return store_; }

  // Starts to gather the slices, of which this rank owns a part; `owned` must not be touched until finish_gather() has
  // returned. `fetch` brings it from the host first; null: it is where the modules compute. All ranks make the same
  // calls in the same order.
  void gather(const at::Tensor& owned, WeightFetch* fetch);
  // Blocks; without a gather that has been started it does nothing.
  void finish_gather();
  void free();

  // Flat memory for the gradients of the store.
  at::Tensor make_gradients(const at::TensorOptions& options) const;
  // Those gradients by slices, as scatter_sum() takes them: each rank gets the sum of its part.
  at::Tensor pack(at::Tensor gradients) const;
  Handle scatter_sum(const at::Tensor& packed, const at::Tensor& part) const;

 private:
  // How experts are split now, and what that joins.
  const ExpertSplit& split() const { return splits_.all()[splits_.current()]; }
  const std::vector<RowCopy>& rows() const { return rows_[splits_.current()]; }
  bool joins() const { return split().mesh.expert_joined > 1; }  // else slices are what the products take
  std::int64_t packed_elements() const;
  void follow_split();

  const Graph& graph_;
  const ExpertSplits& splits_;
  Communicator& communicator_;
  std::int64_t part_;                       // elements of one rank's part
  std::vector<std::vector<RowCopy>> rows_;  // of each split
  ParameterStore store_;
  std::size_t split_of_store_;
  ShardGather packed_;  // from gather() to finish_gather()
};

// Null where the group's products are split as its states are.
std::unique_ptr<JoinedExperts> make_joined_experts(const Graph& graph, const StateGroup& group,
                                                   const RankGroups& ranks);

}  // namespace llmtrain
