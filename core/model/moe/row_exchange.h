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
// ranks (Hwang et al., arXiv 2206.03382, section 3.1). Ranks that split the matrices of the same experts receive the
// rows of different tokens, gather them, and add up their parts of the results (Singh et al., arXiv 2303.06318, section
// 4): between expert ranks each row is sent once. A rank may have no rows to send, or receive none.
class RowExchange {
 public:
  // `map`: this rank's rows by expert, for all experts of the layer. Tells the other ranks how many there are; blocks.
  RowExchange(const MixtureRanks& ranks, const kernels::ExpertRows& map);

  // The rows at this rank's experts.
  const kernels::ExpertRows& local() const { return local_; }
  // This rank's rows, in the order of its map, to their experts: returns local().rows() rows. Blocks, as the way back.
  // Both release what they are given as soon as they have sent it.
  at::Tensor to_experts(at::Tensor rows) const;
  at::Tensor from_experts(at::Tensor rows) const;

 private:
  // Ranks receive different numbers of rows; gathered are as many of each as the most, the others' end being padding.
  at::Tensor padded(at::Tensor rows) const;

  MixtureRanks ranks_;
  std::vector<std::int64_t> sent_, received_;  // rows by position
  std::int64_t gathered_ = 0;                  // rows of each rank that splits the experts
  kernels::ExpertRows local_;                  // a received row is a token with one choice, or none if it is padding
};

}  // namespace llmtrain
