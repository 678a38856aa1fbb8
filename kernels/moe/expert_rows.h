// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace llmtrain::kernels {

// The experts of T tokens, k for each, best first.
struct TopExperts {
  at::Tensor experts;  // int64 [T, k]
  at::Tensor scores;   // [T, k]
};

// The k largest of each row of `scores` [T, E], in fp32 or float64 and contiguous; of equal ones the expert with the
// lower number is first. NaN is never larger, so that k different experts are chosen in any case; on a GPU it is −∞.
// 1 ≤ k ≤ E. On a GPU nobody waits.
TopExperts top_experts(const at::Tensor& scores, std::int64_t k);

// Which tokens each expert computes: the choices (token t, its j-th expert), numbered t·k + j, as rows of one matrix,
// in which the rows of an expert are consecutive and the experts ascend. A choice beyond its expert's capacity has no
// row: it is dropped.
//
// On a GPU the numbers of rows stay there: the matrix has as many rows as there may be choices with one, and of those
// after the last expert's nothing is defined, but that choice_of has some choice for each.
struct ExpertRows {
  // [E + 1]: the rows of expert e are offsets[e] … offsets[e + 1] − 1. On the host; none where a GPU alone knows them.
  std::vector<std::int64_t> offsets;
  at::Tensor row_of;     // int64 [T, k]: the row of each choice, −1 without one
  at::Tensor choice_of;  // int64 [rows]: the choice of each row
  at::Tensor ends;       // int32 [E]: offsets without the first one, on the GPU; undefined on the CPU

  std::int64_t experts() const { return ends.defined() ? ends.numel() : static_cast<std::int64_t>(offsets.size()) - 1; }
  std::int64_t rows() const { return choice_of.numel(); }
  std::int64_t choices() const { return row_of.numel(); }
  bool has_offsets() const { return !offsets.empty(); }
  std::int64_t rows_of(std::int64_t expert) const {  // needs offsets
    const auto e = static_cast<std::size_t>(expert);
    return offsets[e + 1] - offsets[e];
  }
};

// Assigns rows to the choices `experts` (int64 [T, k], below `count`; −1 has none), at most `capacity` per expert: all
// tokens' first choices before all second ones (Lepikhin et al., arXiv 2006.16668, algorithm 1), tokens in their order,
// or with `scores` [T] in descending order of these, equal ones in their order (batch-prioritised routing, Riquelme et
// al., arXiv 2106.05974, section 4.1). Linear in choices and experts; on a GPU nobody waits.
ExpertRows assign_rows(const at::Tensor& experts, std::int64_t count, std::optional<std::int64_t> capacity,
                       const std::optional<at::Tensor>& scores = std::nullopt);

// The map with offsets, and with no more rows than the experts have. Waits for the GPU unless they are there.
ExpertRows with_offsets(ExpertRows map);
// The same where the host knows how many rows each expert has.
ExpertRows with_offsets(ExpertRows map, std::vector<std::int64_t> offsets);

// The expert of each row, int64 [rows], on the map's device; of rows that are none's the last expert.
at::Tensor experts_of_rows(const ExpertRows& map);

}  // namespace llmtrain::kernels
