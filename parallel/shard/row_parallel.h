// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <utility>

#include "core/model/moe/expert_ranks.h"
#include "parallel/comm/communicator.h"

namespace llmtrain {

// RowRanks over a Communicator, which must outlive this. Copyable; copies share the group.
class RowParallel final : public RowRanks {
 public:
  RowParallel(Communicator& communicator, Group group, Purpose purpose)
      : communicator_(&communicator), group_(std::move(group)), purpose_(purpose) {}

  std::int64_t ranks() const override { return group_.size(); }
  std::int64_t position() const override { return group_.position(); }
  at::Tensor gather_rows(const at::Tensor& part) const override;
  at::Tensor scatter_sum_rows(const at::Tensor& whole) const override;
  // Sends `input[p]` consecutive elements to each position p, and receives `output[p]` from it. Blocks.
  void exchange(const at::Tensor& sent, std::span<const std::int64_t> input, const at::Tensor& received,
                std::span<const std::int64_t> output) const;

 private:
  Communicator* communicator_;
  Group group_;
  Purpose purpose_;
};

}  // namespace llmtrain
