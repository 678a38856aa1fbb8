// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/facts.h"

namespace llmtrain::body {

// Where along its last axis a tensor has its k smallest elements, ascending, equal ones by their places, and NaN behind
// all numbers: int64 numbers, without a gradient, and in place of the last axis one of k elements. With Take, the
// elements themselves, and with Gather, what a table says of them.
struct Smallest {
  static constexpr const char* name = "smallest";

  bool operator==(const Smallest&) const = default;
};

void check(const Smallest& smallest, const StepShape& shape);
AxisUse axis_use(const Smallest& smallest, const StepShape& shape, AxisId axis);
Work work(const Smallest& smallest, const StepShape& shape);
Kept kept(const Smallest& smallest, const StepShape& shape);

}  // namespace llmtrain::body
