// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/model/tensor_ranks.h"
#include "parallel/comm/communicator.h"
#include "parallel/layout/layout.h"

namespace llmtrain {

// TensorRanks over a Communicator: the tensor group, and within it the neighbours that hold the same key-value heads if
// there are more ranks than such heads. Copyable; copies share the groups.
class TensorParallel final : public TensorRanks {
 public:
  // Collective over the world; blocks. The communicator must outlive this.
  TensorParallel(Communicator& communicator, const Layout& layout);

  std::int64_t ranks() const override { return group_.size(); }
  std::int64_t position() const override { return group_.position(); }
  ActivationRows rows() const { return rows_; }

  void sum(const at::Tensor& x) const override;
  at::Tensor gather_rows(const at::Tensor& part) const override { return gather_rows(part, Purpose::tensor_parallel); }
  at::Tensor gather_rows(const at::Tensor& part, Purpose purpose) const;
  at::Tensor scatter_sum_rows(const at::Tensor& whole) const override;
  // Sums in place over the ranks with the same key-value heads.
  void sum_copies(const at::Tensor& x) const;

 private:
  Communicator* communicator_;
  Group group_, copies_;
  ActivationRows rows_;
};

}  // namespace llmtrain
