// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

namespace llmtrain {

// [B, S, kv_heads, D] each, in any order in memory but for the last axis, which is contiguous.
struct KeysAndValues {
  at::Tensor key, value;
};

// The ranks that share the tokens of every sequence, as one of them sees them: what attention asks of the others. All
// make the same calls in the same order, and every call blocks until its result is here. Sums are in an order of their
// own that is the same in every run.
class ContextRanks {
 public:
  virtual ~ContextRanks() = default;

  // Those of all positions, from those of this rank's tokens.
  virtual KeysAndValues gather(const KeysAndValues& own) const = 0;
  // Sums what all ranks have of the gradients of all positions; this rank's tokens go to `own`.
  virtual void scatter_sum(KeysAndValues gradients, const KeysAndValues& own) const = 0;

 protected:
  ContextRanks() = default;
  ContextRanks(const ContextRanks&) = default;
  ContextRanks& operator=(const ContextRanks&) = default;
};

}  // namespace llmtrain
