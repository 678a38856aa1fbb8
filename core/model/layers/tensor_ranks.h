// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace llmtrain {

// The ranks that share the features of every layer (Shoeybi et al., arXiv 1909.08053), as seen from one of them: what
// the modules ask of the others. All ranks make the same calls in the same order; tensors are contiguous, and every
// call blocks until its result is available. Sums run in the order of the positions, so all ranks get the same bits.
class TensorRanks {
 public:
  virtual ~TensorRanks() = default;

  virtual std::int64_t ranks() const = 0;
  virtual std::int64_t position() const = 0;

  virtual void sum(const at::Tensor& x) const = 0;                         // in place
  virtual void largest(const at::Tensor& x) const = 0;                     // of each element, in place; NaN wins
  virtual at::Tensor gather_rows(const at::Tensor& part) const = 0;        // [R, …] → [ranks·R, …], by position
  virtual at::Tensor scatter_sum_rows(const at::Tensor& whole) const = 0;  // [T, …] → this rank's [T/ranks, …]
};

// Which rows (tokens) of the activations between the matrix products a tensor rank works on: all of them, or with
// sequence parallelism its T/ranks consecutive ones (Korthikanti et al., arXiv 2205.05198).
enum class ActivationRows { whole, split };

}  // namespace llmtrain
