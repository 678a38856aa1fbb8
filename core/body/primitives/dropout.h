// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/facts.h"

namespace llmtrain::body {

// Zeroes elements at random and multiplies the others by 1/(1 − probability), in training. Which ones depends on the
// step and the element's place alone, so that the backward makes the mask again.
struct Dropout {
  static constexpr const char* name = "dropout";
  double probability = 0;  // in [0, 1)

  bool operator==(const Dropout&) const = default;
};

void check(const Dropout& dropout, const StepShape& shape);
AxisUse axis_use(const Dropout& dropout, const StepShape& shape, AxisId axis);
Work work(const Dropout& dropout, const StepShape& shape);
Kept kept(const Dropout& dropout, const StepShape& shape);

}  // namespace llmtrain::body
