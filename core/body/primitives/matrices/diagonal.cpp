// SPDX-License-Identifier: Apache-2.0
#include "core/body/primitives/matrices/diagonal.h"

#include <algorithm>
#include <vector>

#include "core/body/step_shape.h"

namespace llmtrain::body {

void check(const Diagonal& /*diagonal*/, const StepShape& shape) {
  shape.require_inputs(1, 1);
  std::vector<AxisId> axes = shape.input(0).axes;
  if (axes.size() < 2 || shape.extent(axes[axes.size() - 2]) != shape.extent(axes.back()))
    shape.refuse("a matrix has as many rows as columns");
  axes.pop_back();
  if (shape.output().axes != axes) shape.refuse("the result has the operand's axes but for the last");
}

AxisUse axis_use(const Diagonal& /*diagonal*/, const StepShape& shape, AxisId axis) {
  const std::vector<AxisId>& axes = shape.input(0).axes;
  return std::find(axes.end() - 2, axes.end(), axis) != axes.end() ? AxisUse::whole : AxisUse::independent;
}

Work work(const Diagonal& /*diagonal*/, const StepShape& shape) {
  return {.forward_elements = 2 * shape.output_elements(),
          .backward_elements = shape.input_elements(0) + shape.output_elements()};
}

Kept kept(const Diagonal& /*diagonal*/, const StepShape& /*shape*/) { return {}; }

}  // namespace llmtrain::body
