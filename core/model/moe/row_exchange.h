// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/model/moe/expert_ranks.h"
#include "core/model/pass/kept_tensors.h"
#include "kernels/moe/expert_rows.h"

namespace llmtrain {

inline void visit_rows(kernels::ExpertRows& map, const KeptTensorVisitor& visit) {
  visit_all(visit, {&map.row_of, &map.choice_of, &map.ends});
}

// The ways of one micro-batch's rows between the ranks of their tokens and those of their experts. The experts see rows
// of all ranks in one matrix, by expert and within it by rank, so that their products do not depend on the number of
// ranks (Hwang et al., arXiv 2206.03382, section 3.1). Ranks that split the matrices of the same experts receive the
// rows of different tokens, gather them, and add up their parts of the results (Singh et al., arXiv 2303.06318, section
// 4): between expert ranks each row is sent once. A rank may have no rows to send, or receive none.
//
// Rows in several parts (row_parts.h) have one such matrix per part, and while the experts compute one part, the others
// are on their way (section 3.3 of the former).
class RowExchange {
 public:
  // `map`: this rank's rows by expert, for all experts of the layer, with offsets. Tells the other ranks how many there
  // are; blocks for them.
  RowExchange(const MixtureRanks& ranks, const kernels::ExpertRows& map);

  void visit(const KeptTensorVisitor& visit);

  // Into which rows are cut.
  std::int64_t parts() const { return static_cast<std::int64_t>(parts_.size()); }
  // The rows of a part at this rank's experts.
  const kernels::ExpertRows& local(std::size_t part) const { return parts_[part].local; }

  // What the experts make of the rows of a part, of which there are local(part).rows().
  using Network = std::function<at::Tensor(std::size_t part, at::Tensor rows)>;
  // Sends this rank's rows, in the order of its map in_parts(), to their experts, and returns what `network` makes of
  // them there. Blocks. Releases the rows as soon as it has sent them.
  at::Tensor through_experts(at::Tensor rows, const Network& network) const;

 private:
  struct Part {
    RowNumbers numbers;         // by position
    std::int64_t first = 0;     // of this rank's rows
    std::int64_t own = 0;       // how many of these
    std::int64_t arriving = 0;  // how many from all positions
    std::int64_t gathered = 0;  // rows of each rank that splits the experts
    kernels::ExpertRows local;  // a received row is a token with one choice, or none if it is padding
  };

  // The numbers of all rows, and those that arrive at each rank that splits the experts, by position and expert;
  // decides how the rows go.
  struct Agreed {
    RowNumbers numbers;
    std::vector<std::int64_t> gathered;
    std::int64_t parts = 1;
  };
  Agreed agree(std::vector<std::int64_t> own);
  at::Tensor pass(at::Tensor rows, const Network& network) const;
  // A part without its first row. `numbers` are by position and expert, and `gathered` those of all ranks that split
  // the experts.
  Part part_of(const RowNumbers& numbers, const std::vector<std::int64_t>& gathered, const at::Device& device) const;
  std::unique_ptr<RowTransfer> start_arrival(const Part& part, const at::Tensor& rows) const;
  at::Tensor by_expert(const Part& part, at::Tensor arrived) const;
  at::Tensor by_rank(const Part& part, at::Tensor results) const;
  // Ranks receive different numbers of rows; gathered are as many of each as the most, the others' end being padding.
  static at::Tensor padded(const Part& part, at::Tensor rows);

  MixtureRanks ranks_;
  std::int64_t experts_ = 0;  // on this rank
  std::int64_t fullest_ = 0;  // rows of a rank for one expert, where that decides how they go
  std::vector<Part> parts_;
};

}  // namespace llmtrain
