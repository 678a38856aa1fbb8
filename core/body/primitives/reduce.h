// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/facts.h"

namespace llmtrain::body {

enum class ReduceKind { sum, mean };

// Over the axes that the result lacks; it has the others in the operand's order.
struct Reduce {
  static constexpr const char* name = "reduce";
  ReduceKind kind = ReduceKind::sum;

  bool operator==(const Reduce&) const = default;
};

void check(const Reduce& reduce, const StepShape& shape);
AxisUse axis_use(const Reduce& reduce, const StepShape& shape, AxisId axis);
Work work(const Reduce& reduce, const StepShape& shape);
Kept kept(const Reduce& reduce, const StepShape& shape);

}  // namespace llmtrain::body
