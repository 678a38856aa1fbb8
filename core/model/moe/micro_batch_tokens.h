// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "core/model/moe/expert_ranks.h"
#include "kernels/moe/expert_rows.h"
#include "kernels/sequence_part.h"

namespace llmtrain {

// All tokens of a micro-batch, of which several ranks may hold equal parts: capacity, priority and losses count over
// all of them, so that they do not depend on the layout.
class MicroBatchTokens {
 public:
  // `ranks`, which outlives this, holds the other tokens; null where all are here.
  explicit MicroBatchTokens(const RowRanks* ranks) : ranks_(ranks) {}

  // How many all ranks have, where each has `own`.
  std::int64_t count(std::int64_t own) const { return ranks_ != nullptr ? own * ranks_->ranks() : own; }

  // The sum over the ranks of float64 values; the same bits on each of them. Blocks for the others.
  at::Tensor sum(const at::Tensor& values) const;

  // Rows for those choices of this rank's tokens that are within the capacity of `experts` experts: what
  // kernels::assign_rows() gives all tokens, with scores if `by_score`. `rows` says which tokens these are. Blocks
  // for the other ranks where there is a capacity.
  kernels::ExpertRows assign(const kernels::TopExperts& own, std::int64_t experts, std::optional<std::int64_t> capacity,
                             bool by_score, const kernels::RowsAtHand& rows) const;

 private:
  at::Tensor without_dropped(const kernels::TopExperts& own, std::int64_t experts, std::int64_t capacity, bool by_score,
                             const kernels::RowsAtHand& rows) const;

  const RowRanks* ranks_;
};

}  // namespace llmtrain
