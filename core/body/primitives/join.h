// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "core/body/facts.h"

namespace llmtrain::body {

// Two or more tensors one after another along one axis, which they and the result each have under a label of their own
// in the same place. Their other axes are the same.
struct Join {
  static constexpr const char* name = "join";
  std::size_t place = 0;  // of that axis among the result's

  bool operator==(const Join&) const = default;
};

void check(const Join& join, const StepShape& shape);
AxisUse axis_use(const Join& join, const StepShape& shape, AxisId axis);
Work work(const Join& join, const StepShape& shape);
Kept kept(const Join& join, const StepShape& shape);

}  // namespace llmtrain::body
