// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/model/moe/expert_ranks.h"
#include "kernels/moe/expert_rows.h"

namespace llmtrain {

// The ways of one micro-batch's rows between the ranks of their tokens and those of their experts. The experts see rows
// of all ranks in one matrix, by expert and within it by rank, so that their products do not depend on the number of
// ranks (Hwang et al., arXiv 2206.03382, section 3.1). A rank may have no rows to send, or receive none.
class RowExchange {
 public:
  // `map`: this rank's rows by expert, for all experts of the layer. Tells the other ranks how many there are; blocks.
  // `ranks` outlives this.
  RowExchange(const ExpertRanks& ranks, const kernels::ExpertRows& map);

  // The rows at this rank's experts.
  const kernels::ExpertRows& local() const { return local_; }
  // This rank's rows, in the order of its map, to their experts: returns local().rows() rows. Blocks, as the way back.
  at::Tensor to_experts(const at::Tensor& rows) const;
  at::Tensor from_experts(const at::Tensor& rows) const;

 private:
  const ExpertRanks* ranks_;
  std::vector<std::int64_t> sent_, received_;  // rows by position
  kernels::ExpertRows local_;                  // a received row is a token with one choice
};

}  // namespace llmtrain
