// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/model/moe/expert_ranks.h"
#include "parallel/comm/communicator.h"
#include "parallel/layout/joined_slices.h"
#include "parallel/layout/layout.h"
#include "parallel/layout/mesh.h"
#include "parallel/shard/row_parallel.h"

namespace llmtrain {

// One way to split the products of experts whose states are cut into finer slices (joined_slices.h).
struct ExpertSplit {
  Mesh mesh;
  RowParallel features;           // the ranks that split the products
  Group gathering;                // the ranks whose slices each of them joins
  std::vector<StoredPart> parts;  // by position in this group
};

// The ways in which a rank's experts can be split between steps, since the states are the same for all: a rank's tokens
// stay where they are, and what it gathers follows from the split (Hwang et al., arXiv 2206.03382, section 3.1). As
// RowRanks it is the ranks that split the products in the current step, also one alone.
class ExpertSplits final : public RowRanks {
 public:
  // Those of expert_splits(), of which that with the fewest ranks is used first. Collective over the world; blocks. The
  // communicator must outlive this.
  ExpertSplits(Communicator& communicator, const Partition& partition);

  const std::vector<ExpertSplit>& all() const { return splits_; }
  // Which of them is the current one.
  std::size_t current() const { return current_; }
  // Between steps, on all ranks alike: that in which so many ranks split the products.
  void use(std::int64_t ranks);

  std::int64_t ranks() const override { return features().ranks(); }
  std::int64_t position() const override { return features().position(); }
  at::Tensor gather_rows(const at::Tensor& part) const override;
  at::Tensor scatter_sum_rows(const at::Tensor& whole) const override;

 private:
  const RowParallel& features() const { return splits_[current_].features; }

  std::vector<ExpertSplit> splits_;
  std::size_t current_ = 0;
};

}  // namespace llmtrain
