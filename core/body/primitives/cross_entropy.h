// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/facts.h"

namespace llmtrain::body {

// log Σ exp(logits) over their last axis less the logit of the target, a field of int64 of the others: a loss of each
// row, in the type of sums. A pass may smooth targets by s (Szegedy et al., arXiv 1512.00567, section 7): 1 − s of this
// loss and s of its mean over all classes.
struct CrossEntropy {
  static constexpr const char* name = "cross_entropy";

  bool operator==(const CrossEntropy&) const = default;
};

void check(const CrossEntropy& cross_entropy, const StepShape& shape);
AxisUse axis_use(const CrossEntropy& cross_entropy, const StepShape& shape, AxisId axis);
Work work(const CrossEntropy& cross_entropy, const StepShape& shape);
Kept kept(const CrossEntropy& cross_entropy, const StepShape& shape);

}  // namespace llmtrain::body
