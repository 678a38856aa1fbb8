// SPDX-License-Identifier: Apache-2.0
#include "core/model/tensor_split.h"

#include <utility>

namespace llmtrain {

TensorSplit::TensorSplit(const TensorRanks* ranks, ActivationRows rows) : ranks_(ranks), rows_(rows) {}

ShardPlace TensorSplit::place() const { return {.degrees = {.tensor = ranks()}, .tensor = position()}; }

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

at::Tensor TensorSplit::gather(const at::Tensor& part) const {
  return ranks() > 1 ? ranks_->gather_rows(part.contiguous()) : part;
}

void TensorSplit::drop_own_rows(at::Tensor& own, const MicroBatch& micro, double probability,
                                std::uint64_t site) const {
  llmtrain::drop_rows_(own, micro, probability, site, first_row(own.size(0)));
}

}  // namespace llmtrain
