// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/facts.h"

namespace llmtrain::body {

// The elements of a tensor [..., n] at the places [..., k] that Smallest has found along n, in their order. The
// gradient is zero where no place is.
struct Take {
  static constexpr const char* name = "take";

  bool operator==(const Take&) const = default;
};

void check(const Take& take, const StepShape& shape);
AxisUse axis_use(const Take& take, const StepShape& shape, AxisId axis);
Work work(const Take& take, const StepShape& shape);
Kept kept(const Take& take, const StepShape& shape);

}  // namespace llmtrain::body
