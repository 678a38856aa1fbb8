// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/facts.h"

namespace llmtrain::body {

// exp(x) ÷ its sum over one axis.
struct Softmax {
  static constexpr const char* name = "softmax";
  AxisId axis = 0;

  bool operator==(const Softmax&) const = default;
};

void check(const Softmax& softmax, const StepShape& shape);
AxisUse axis_use(const Softmax& softmax, const StepShape& shape, AxisId axis);
Work work(const Softmax& softmax, const StepShape& shape);
Kept kept(const Softmax& softmax, const StepShape& shape);

}  // namespace llmtrain::body
