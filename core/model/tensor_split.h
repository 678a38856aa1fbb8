// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/graph/sharding.h"
#include "core/model/micro_batch.h"
#include "core/model/tensor_ranks.h"

namespace llmtrain {

// How a module of one rank cooperates with the other tensor ranks: the two transitions between activations whose rows
// this rank has (all, or its own) and matrix products whose features it has. Each is the other's gradient, so a forward
// that uses one uses the other in its backward. With one rank both return their input. Cheap to copy.
class TensorSplit {
 public:
  TensorSplit() = default;
  // `ranks` outlives this; null for one rank alone.
  TensorSplit(const TensorRanks* ranks, ActivationRows rows);

  std::int64_t ranks() const { return ranks_ != nullptr ? ranks_->ranks() : 1; }
  std::int64_t position() const { return ranks_ != nullptr ? ranks_->position() : 0; }
  ShardPlace place() const;

  // Into features: gathers all rows from the ranks' own. With whole rows nothing is sent.
  at::Tensor whole_rows(const at::Tensor& own) const;
  // Out of features: sums over the ranks and returns this rank's rows. May reuse the memory of `partial`.
  at::Tensor own_sum(at::Tensor partial) const;
  // Concatenates the parts of all ranks, whatever the rows are: [R, …] → [ranks·R, …].
  at::Tensor gather(const at::Tensor& part) const;

  // The first of this rank's rows where it has `own` of them.
  std::int64_t first_row(std::int64_t own) const { return splits_rows() ? position() * own : 0; }
  // In place, the dropout of a site whose activation [T, H] has these rows on this rank.
  void drop_own_rows(at::Tensor& own, const MicroBatch& micro, double probability, std::uint64_t site) const;

 private:
  bool splits_rows() const { return ranks() > 1 && rows_ == ActivationRows::split; }

  const TensorRanks* ranks_ = nullptr;
  ActivationRows rows_ = ActivationRows::whole;
};

}  // namespace llmtrain
