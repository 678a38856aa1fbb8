// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/facts.h"

namespace llmtrain::body {

// The diagonals [..., r] of matrices [..., r, c]; the gradient beside them is zero.
struct Diagonal {
  static constexpr const char* name = "diagonal";

  bool operator==(const Diagonal&) const = default;
};

void check(const Diagonal& diagonal, const StepShape& shape);
AxisUse axis_use(const Diagonal& diagonal, const StepShape& shape, AxisId axis);
Work work(const Diagonal& diagonal, const StepShape& shape);
Kept kept(const Diagonal& diagonal, const StepShape& shape);

}  // namespace llmtrain::body
