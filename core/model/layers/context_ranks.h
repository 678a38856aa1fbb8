// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace llmtrain {

// [B, S, kv_heads, D] each, with any strides except that the last axis is contiguous.
struct KeysAndValues {
  at::Tensor key, value;
};

// The ranks that share the tokens of every sequence, as seen from one of them: what attention asks of the others. All
// ranks make the same calls in the same order, and every call blocks until its result is available. The order of sums
// is an implementation's own, but the same in every run.
class ContextRanks {
 public:
  virtual ~ContextRanks() = default;

  // Keys and values of all positions, from those of this rank's tokens.
  virtual KeysAndValues gather(const KeysAndValues& own) const = 0;
  // The largest of each element over the ranks, in place; NaN wins.
  virtual void largest(const at::Tensor& x) const = 0;
  // Sums all ranks' gradients of all positions, and writes those of this rank's tokens to `own`.
  virtual void scatter_sum(KeysAndValues gradients, const KeysAndValues& own) const = 0;
};

}  // namespace llmtrain
