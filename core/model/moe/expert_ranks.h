// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace llmtrain {

// The ranks that share the experts of every layer, as seen from one of them: each holds equally many consecutive
// experts, and sends the rows of its tokens to those of the others. All ranks make the same calls in the same order,
// and every call blocks until its result is available.
class ExpertRanks {
 public:
  virtual ~ExpertRanks() = default;

  virtual std::int64_t ranks() const = 0;

  // Equally many numbers for each position; returns those that the positions have for this one, by position.
  virtual std::vector<std::int64_t> exchange_counts(std::span<const std::int64_t> counts) const = 0;
  // `sent[p]` consecutive rows for each position p, contiguous; returns `received[p]` rows from each. Either may be 0.
  virtual at::Tensor exchange_rows(const at::Tensor& rows, std::span<const std::int64_t> sent,
                                   std::span<const std::int64_t> received) const = 0;
};

// Ranks that have equally many rows each, as seen from one of them. Calls as those of ExpertRanks; tensors are
// contiguous. Sums run in the order of the positions, so all ranks get the same bits.
class RowRanks {
 public:
  virtual ~RowRanks() = default;

  virtual std::int64_t ranks() const = 0;
  virtual std::int64_t position() const = 0;

  virtual at::Tensor gather_rows(const at::Tensor& part) const = 0;        // [R, …] → [ranks·R, …], by position
  virtual at::Tensor scatter_sum_rows(const at::Tensor& whole) const = 0;  // [ranks·R, …] → this rank's [R, …]
};

// The other ranks of a layer with experts; null where this rank is alone. They outlive the layer.
struct MixtureRanks {
  const ExpertRanks* experts = nullptr;  // have the experts that are not here
  const RowRanks* features = nullptr;    // split the matrices of this rank's experts
  const RowRanks* tokens = nullptr;      // hold the other tokens of the micro-batch
};

}  // namespace llmtrain
