// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers/tensor_split.h"

namespace llmtrain {

at::Tensor TensorSplit::whole_rows(const at::Tensor& own) const {
  return splits_rows() ? ranks_->gather_rows(own.contiguous()) : own;
}

at::Tensor TensorSplit::own_sum(at::Tensor partial) const {
  if (ranks() == 1) return partial;
  // With sequence parallelism each rank needs the sum of its own rows only: a reduce-scatter, half an all-reduce.
  if (splits_rows()) return ranks_->scatter_sum_rows(partial);
  ranks_->sum(partial);
  return partial;
}

at::Tensor TensorSplit::row_share(const at::Tensor& rows) const {
  if (ranks() == 1 || splits_rows()) return rows;
  const std::int64_t share = rows.size(0) / ranks();
  return rows.narrow(0, position() * share, share);
}

at::Tensor TensorSplit::from_row_shares(const at::Tensor& share) const { return splits_rows() ? share : gather(share); }

void TensorSplit::sum_over_ranks(const at::Tensor& x) const {
  if (ranks() > 1) ranks_->sum(x);
}

at::Tensor TensorSplit::gather(const at::Tensor& part) const {
  return ranks() > 1 ? ranks_->gather_rows(part.contiguous()) : part;
}

TensorSplit::OwnDropout TensorSplit::own_dropout(const at::Tensor& own, const Sequences& rows, const PassContext& pass,
                                                 double probability, std::uint64_t site) const {
  // Counted in whole sequences, also where this rank has a part of them: indices are those of the unsharded tensor.
  const std::int64_t elements_per_sample = rows.whole_length() * own.size(1);
  return {dropout_at(pass, probability, site, elements_per_sample), {rows.part, rows.length, first_row(own.size(0))}};
}

}  // namespace llmtrain
