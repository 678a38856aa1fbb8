// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/model/layers/tensor_ranks.h"
#include "core/model/pass/pass_context.h"

namespace llmtrain {

// How a module of one rank cooperates with the other tensor ranks: the two transitions between activations whose rows
// this rank has (all, or its own) and matrix products whose features it has; and two that drop the tokens that other
// ranks have, too, and bring them back (Singh et al., arXiv 2303.06318). Of each pair one is the other's gradient, so a
// forward that uses one uses the other in its backward. With one rank all return their input. Cheap to copy.
class TensorSplit {
 public:
  // `ranks` outlives this; null for one rank alone.
  TensorSplit(const TensorRanks* ranks, ActivationRows rows) : ranks_(ranks), rows_(rows) {}

  std::int64_t ranks() const { return ranks_ != nullptr ? ranks_->ranks() : 1; }
  std::int64_t position() const { return ranks_ != nullptr ? ranks_->position() : 0; }
  // Whether a rank has some of the rows alone.
  bool splits_rows() const { return ranks() > 1 && rows_ == ActivationRows::split; }

  // Into features: gathers all rows from the ranks' own. With whole rows nothing is sent.
  at::Tensor whole_rows(const at::Tensor& own) const;
  // Out of features: sums over the ranks and returns this rank's rows. May reuse the memory of `partial`.
  at::Tensor own_sum(at::Tensor partial) const;
  // Work on tokens that is not split by features: this rank's T/ranks consecutive rows of those that it has, and back
  // from the ranks' shares to these. With split rows both return their input.
  at::Tensor row_share(const at::Tensor& rows) const;
  at::Tensor from_row_shares(const at::Tensor& share) const;
  // Adds up over the ranks, in place, whatever the rows are.
  void sum_over_ranks(const at::Tensor& x) const;
  // Concatenates the parts of all ranks, whatever the rows are: [R, …] → [ranks·R, …].
  at::Tensor gather(const at::Tensor& part) const;

  // The first of this rank's rows where it has `own` of them.
  std::int64_t first_row(std::int64_t own) const { return splits_rows() ? position() * own : 0; }
  // The dropout of a site whose activation [T, H] has these rows on this rank: what kernels/random/dropout.h takes.
  // `rows` outlives it.
  struct OwnDropout {
    kernels::Dropout dropout;
    kernels::RowsAtHand rows;
  };
  OwnDropout own_dropout(const at::Tensor& own, const Sequences& rows, const PassContext& pass, double probability,
                         std::uint64_t site) const;

 private:
  const TensorRanks* ranks_;
  ActivationRows rows_;
};

}  // namespace llmtrain
